"""Games as environments of verifiers 1, which its command line evaluates and its trainers train on.

package.py      writes a Python package for one game: `arena verifiers package`
environment.py  the classes that such a package derives from, among them the seat of a model that
                verifiers serves; needs the extra `verifiers`
"""
