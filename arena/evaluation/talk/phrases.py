"""Phrase book of the claim reader: English forms of claims over a text of tokens.

The reader has replaced players by `@3` (several: `@1+2`), roles and sides by `#3`, items by `%0`
and announced acts by `&0`; contractions are written out, in lower case. So few forms are needed.
Each pattern is bounded, so that no speech makes the search slow.
"""

from __future__ import annotations

import re

ADVERB = (
    r"(?:(?:really|definitely|certainly|clearly|actually|also|surely|obviously|indeed|both|just|"
    r"simply|only|totally|absolutely|truly|still|honestly|very|so|quite|strongly|fully|completely|"
    r"always|now|too|either|in fact|no doubt|certain|confirmed|proven|much|at all|together|most|"
    r"mainly|especially|even|more|merely|currently|gladly|happily|mostly|primarily|partly|slightly|"
    r"somewhat|mildly|seriously|heavily|simply put|frankly|increasingly|growing|getting|extremely|"
    r"highly|deeply|already|today|again|been|being|probably|likely|possibly|apparently|presumably|"
    r"perhaps|maybe|indeed|literally|by all means|without (?:a|any) doubt|beyond doubt|as|for sure|"
    r"100 ?%|undoubtedly|no longer|most likely|almost certainly|in my opinion|in my view|i think|"
    r"i guess) ){0,4}"
)
DETERMINER = (
    r"(?:(?:the|a|an|our|your|one|of|another|real|true|other|only|just|simple|simply|plain|"
    r"ordinary|regular|normal|mere|actual|lone|last|remaining|fellow|genuine|innocent|players?|"
    r"members?|part|role|role:|single|humble|poor|honest|second|first|both|all|pair|two|couple) "
    r"){0,5}"
)
BE = r"(?:is|are|am|was|were)"
MODAL = (
    r"(?:(?:might|may|could|must|has to|have to|should)(?: well| also| very well)? be|"
    r"(?:seem|appear|look|feel|sound|smell)s?(?: to me)?(?: to be| like)?|strikes? me as|"
    r"being|(?:would|will|should) be)"
)
CANNOT = r"(?:can not|could not|can never)(?: possibly)? be"
TURNED = (
    r"(?:turn(?:s|ed) out(?: to be)?|came (?:back|out|up)(?: as)?|come(?:s)? back(?: as)?|"
    r"proved to be|to be|to have been)"
)
WHO = r"(?P<who>@[\d+]+|i|you|he|she|they|it|both)"

EMBEDDED = re.compile(
    r"@[\d+]|(?<!i )(?<!would )(?<!gut )(?<!to )(?<!can )(?<!only )\b(?:say|says|said|saying|"
    r"tell|pretend|heard?|rumou?rs?|story|claims?|ask|asks|think that you|"
    r"want|wants|convince|repeat|print|write|output)\b"
)
"""Words before an identity that make it a statement of others, or a request."""
TRAILING = re.compile(
    r"^(.*?),? ((?:i|we) (?:think|guess|believe|suppose|assume|would say|bet|would bet|"
    r"would bet on it)|probably|maybe|perhaps|in my (?:opinion|view)|it seems|presumably|"
    r"most likely)$"
)
"""A hedge at the end of a sentence."""

INSERTED = re.compile(r"^i, [^,]{1,60}, (?=am\b)|(?<=\bam), as i [^,]{1,40},(?= )")
"""An insertion between the subject and what it is."""
FINDINGS = re.compile(r"^my (?:\w+ )?(?:findings|results|checks|reports?)(?: so far| are)*:? ")
"""The beginning of a list of results."""
SAW = re.compile(r", (?:because )?i (?:saw|checked|inspected) (?:it|them|him|her)(?: myself)?$")
"""The source of a result, after it."""
IRONY = re.compile(
    r"^(?:oh (?:sure|yeah|of course|right)\b|yeah,? right|sure,|of course,|as if\b)|"
    r"\b(?:pigs (?:can|might|will) fly|kidding|just a joke|joking|queen of|king of|laugh|"
    r"said no one|santa claus|earth is flat)\b"
)
"""Marks of irony: the speaker means the opposite, or nothing."""
NOT_CLAIMED = re.compile(
    r"\b(?:if|unless|whether|(?<!i )suppose|supposing|assuming|imagine|provided|in case|as long as|"
    r"when|whenever|wonder|hard to say|no idea|who(?:ever)? (?:is|are|was)|^either|either @|"
    r"either \w+ or|one of @|between @|among @|someone|somebody|let us say|according to|one of us|"
    r"two of us|some of us|even though)\b|\b(?:do|does|can|could) not (?:\w+ )?"
    r"(?:know|say|tell|be sure|remember)\b|\bnot (?:yet )?sure\b|\bit (?:has been|was|is) "
    r"(?:alleged|claimed|said|rumou?red|suggested|assumed) that\b|^(?:should|had|were|would|could|"
    r"is|are|do|does|did|has|have|can|will|who|what(?! i (?:\w+ )?(?:need|want|value|care)|"
    r" matters)|why|how) (?!not )|\b(?:there (?:is|are|must)(?! no way| something| an? (?:\w+ )?"
    r"(?:\d+ ?(?:%|percent) )?(?:chance|probability))|at least one (?:of|#)|would have|see no way|"
    r"no reason to(?! (?:doubt|suspect|distrust)))\b"
)
"""Conditions, questions and disjunctions: clauses that claim nothing."""
REPORTED = re.compile(
    r"(?:@[\d+]+|\b(?:he|she|they|you|people|we all|everyone|nobody)) (?:(?:just|also|has|have|had|"
    r"now|already|only|still|himself|herself|yesterday|first|later|then|clearly|keeps?) ){0,3}"
    r"(?:says?|said|saying|claims?|claimed|claiming|thinks?|thought|tells?|told|accuses?|accused|"
    r"believes?|suspects?|suspected|wants?|insists?|insisted|states?|stated|argues?|argued|"
    r"mentions?|mentioned|suggests?|suggested|pretends?|called|calls)\b"
)
"""Words of others: what follows is not the speaker's claim."""

HEDGE = re.compile(
    r"\b(?:(?:i|we) (?:\w+ ){0,3}(?:think|believe|guess|suppose|assume|suspect|feel|bet|reckon|"
    r"fear|imagine|expect|am inclined)|probably|maybe|perhaps|possibl[ey]|likely|presumably|"
    r"apparently|might|may|could|must|has to|have to|almost certainly|most likely|seems?|appears?|"
    r"looks?|feels?|sounds?|in my (?:opinion|view|eyes|book)|guess|chances?|likelihood|inclined to|"
    r"leaning towards?|strikes? me|gut|instinct|odds|(?:have|is) (?:\w+ )?reason to "
    r"(?:believe|think|suspect)|i would say|bet|if you ask me|(?:fairly|pretty|quite|rather|almost|"
    r"nearly|not entirely) (?:sure|certain|confident)|feeling|impression|hunch|for me)\b"
)
"""Words that make a statement a guess."""
PERCENT = re.compile(r"\b(\d{1,3}) ?(?:%|percent\b|per cent\b)")
PRONOUN = re.compile(
    r"\b((?:trust|believe|suspect|distrust|doubt|accuse|vouch for|vot(?:e|ing) (?:for|out|"
    r"against))) (?:them|him|her)\b(?! \w)"
)
"""An object that is the player who was named last."""
IMPOSSIBLE = re.compile(r"\b(?:no way|out of the question|impossible)\b")
"""Denials without a hedge."""
DENIED_BELIEF = re.compile(
    r"\b(?:i|we) (?:do|did|would|can|could) not (?:\w+ )?(?:think|believe|suppose)(?: that)?\b|"
    r"\bi (?:\w+ )?doubt(?: that)?\b|\b(?:hard to believe|no way(?: that)?|"
    r"out of the question that|impossible that|unlikely that|do not see how)\b|"
    r"\bi am not (?:\w+ )?(?:convinced|certain)\b"
)
"""Beginnings that deny what follows."""

IDENTITY = re.compile(
    rf"(?<!\S){WHO} {ADVERB}(?:(?P<cannot>{CANNOT})|{BE}|{MODAL}|{TURNED}|not {BE})(?: indeed)? "
    rf"{ADVERB}(?P<neg>not |no |neither |never )?{ADVERB}(?:likely to be |confirmed to be |"
    rf"known to be |proven to be )?{DETERMINER}(?:on |with |for )?{DETERMINER}"
    rf"(?:(?!not|no|never|than|by|and|to|from|about|against|who|whom|that|which|getting|where|"
    rf"as)\w+ )?#(?P<group>\d+)(?! (?:vibes?|energy|behaviou?r|moves?|tactics?|plays?|kills?|"
    rf"attacks?|victims?|targets?|claims?|hunt|talk)\b)"
    rf"(?: (?:nor|or) (?:the |a )?#(?P<second>\d+))?"
)
REVERSED = re.compile(
    rf"(?:^|\b(?:the|our|a|one|another) )(?:real |true |other |actual |only |"
    rf"last |remaining |second |third |final )?#(?P<group>\d+) {BE} {ADVERB}"
    r"(?P<neg>not )?(?P<who>@[\d+]+|me\b)"
)
NEITHER = re.compile(rf"\bneither (?P<who>@[\d+]+) {BE} {DETERMINER}#(?P<group>\d+)")
OWN = re.compile(
    rf"^(?:the )?#(?P<here>\d+) here\b|^(?:speaking |talking |and |so )?as "
    rf"{DETERMINER}#(?P<as>\d+)|\bi {ADVERB}(?:hold|have|got|was dealt|was given|drew|"
    rf"claim(?: to be)?|am claiming(?: to be)?|play(?: as)?|am playing(?: as)?|am coming out as|"
    rf"come out as|reveal myself as|work as|serve as) {DETERMINER}#(?P<have>\d+)|\bmy (?:\w+ )?"
    rf"(?:role|card|identity|character|job)(?: (?:is|says|reads|shows)(?P<neg> not)?:?|:) "
    rf"{DETERMINER}#(?P<role>\d+)"
)

_CHECK = (
    r"(?:checked|inspected|investigated|examined|looked at|peeked at|scanned|saw|seen|learned|"
    r"learnt|discovered|found(?: out)?|tested|looked into|checked on|(?:chose|decided|went|"
    r"used my power) to (?:inspect|check|examine|investigate|look at|look into|peek at)|"
    r"used [a-z ]{1,30}? on)"
)
CHECK = re.compile(
    rf"\bi (?:have |had )?{ADVERB}{_CHECK}\b|"
    r"\bmy (?:\w+ )?(?:inspection|check|investigation|power|vision|result|peek|examination|"
    r"visions?)s?\b|\bi had a vision\b|\bthe results? (?:for|of|on) @|"
    r"\blady (?:of the lake )?(?:has )?(?:showed|shows|shown|told|revealed)\b"
)
"""The speaker learned something by its role."""
FOUND = re.compile(
    r"\bi (?:have )?(?:just )?(?:found|caught|discovered|got|identified) (?:a|the|another|"
    r"one) #(?P<group>\d+)(?: - |: |, )?(?:it is |namely |and it is )?(?P<who>@[\d+]+)"
)
RESULT = re.compile(
    rf"(?:^|: |, | - |\b(?:and|found|as|showed|shows|was|is|were|are|that|who|back|result|also|"
    rf"came|says|said|got|saw|both) )(?:it |they |he |she )?(?:{BE} )?{ADVERB}(?P<neg>not |no )?"
    rf"{ADVERB}{DETERMINER}#(?P<group>\d+)"
)

ACCUSED = re.compile(
    rf"\b(?:suspect|accuse) (?P<who>@[\d+]+) (?:of being|to be|as) {DETERMINER}#(?P<group>\d+)"
)
"""A suspicion that names a role: a hedged identity."""

SUSPECTS = tuple(
    re.compile(text)
    for text in (
        rf"\b(?:i|we) (?:do |have to |(?:am |are )?(?:beginning|starting|begin|start|tempted|"
        rf"inclined) to |will |would |can )?(?P<neg>not )?{ADVERB}(?:suspect|distrust|mistrust|"
        rf"doubt|accuse|am accusing) (?:that )?"
        r"(?P<who>@[\d+]+)(?! (?:is|are|was|were|may|might)\b)",
        r"\b(?P<neg>not (?:\w+ )?)?(?:suspicious|wary|doubtful|sceptical|skeptical|worried|"
        r"concerned|bad feeling) (?:of|about) (?P<who>@[\d+]+)",
        r"\b(?:(?:i|we|you|anyone|everyone|please)?\s?(?:do|would|can|could|should|will) (?:not|"
        r"never)|(?:i|we) (?:no longer|never)) "
        rf"{ADVERB}(?:trust|believe)(?: a word| anything| what)? (?P<who>@[\d+]+)(?! {BE})",
        r"\bmy (?:\w+ ){0,2}suspects?(?: (?!is\b|are\b)\w+){0,3} (?:is|are|remains?|"
        r"would be) (?:still |now )?(?P<who>@[\d+]+)",
    )
)
"""Suspicions of one or several players; `DARK` has what is left."""
TRUSTS = re.compile(
    rf"\b(?:i|we) (?:can |do |will |would |tend to |have decided to |choose to |want to |"
    rf"(?:am )?(?:beginning|starting|begin|start|inclined|tempted) to )?{ADVERB}"
    rf"(?:trust|believe|vouch for|believe in|rely on) (?:what )?(?P<who>@[\d+]+)"
    rf"(?! (?:{BE}|may|might|could|must|has to)\b)"
)
DARK = re.compile(
    r"\b(?:suspicio\w*|suspects?|suspected|distrust\w*|mistrust\w*|guilty|lying|liars?|lies|lied|"
    r"deceiv\w+|deceit\w*|mislead\w*|fool us|trick us|shady|fishy|dishonest\w*|untrustworthy|"
    r"traitor\w*|sinister|evasive|inconsistent\w*|contradict\w*|hiding|hides|holes|creeps|flags?|"
    r"alarms?|doubt(?:s|ful|ing)?|wary|scrutiny|smells?|stinks?|rotten|desperate|forced|rehearsed|"
    r"odd|strange|weird|crooked|slippery|fake|scapegoat\w*|impostors?|frauds?|pretender|worr\w+|"
    r"uneasy|bothers?|beware|careful|watch out|look out for|caution|warn\w*|closer look|hesitant|"
    r"troubling|feels? off|seems? off|something about|makes no sense|falls apart|dodg\w+|my money|"
    r"my bet|my finger|all signs|all fingers|everything points|leads? (?:me )?back|"
    r"false[- ]claiming|bad feeling|keep an eye)\b|(?<!was )(?:off|wrong|funny|fishy) "
    r"(?:about|with)|(?:an|my|our|close) eyes? (?:\w+ )?on|not add up|no longer (?:trust|believe)|"
    r"never trust(?:ed)?|not sit (?:right|well)|not (?:\w+ )?(?:buy|convinced|persuaded|impressed)|"
    r"not like (?:how|the way|what|that)|hard to (?:trust|believe)|(?:mistake|foolish|folly|unwise|"
    r"dangerous|against|no reason|difficult|impossible) (?:to )?(?:trust|believe|trusting|"
    r"believing)|fails? to (?:persuade|convince)|(?:little|no|less|zero|lost (?:all |my )?) ?"
    r"(?:trust|faith|confidence)|(?:top|tops|high|head|heads|first|on) (?:of |on )?my "
    r"(?:\w+ )?list(?! of trusted)"
)
"""Words and idioms of suspicion, for clauses about one player in no known form."""
BRIGHT = re.compile(
    r"\b(?:trust\w*|honest\w*|sincere\w*|genuine\w*|truthful\w*|faith|reliable|credible|believable|"
    r"vouch\w*|saint|convincing|convinces?|confidence|the truth|side with|stand (?:by|behind)|"
    r"comfortable with|confident in|at ease with|good books|good side|true of heart|my life|"
    r"in the fire|list of trusted|given (?:me|us) no (?:reason|cause))\b"
)
"""The same for trust."""
DENIALS = re.compile(r"\b(?:not|no|never|neither|hardly|nobody|none|without|no longer|least)\b")
_BAD = (
    r"(?:suspicious|suspect|lying|a liar|liars?|guilty|shady|fishy|strange|scummy|odd|weird|"
    r"(?:acting|behaving|talking) (?:very |so |a bit )?\w+|suspiciously|strangely|oddly|weirdly|"
    r"untrustworthy|dishonest|hiding something|deceiving us|misleading us|fooling us|manipulating "
    r"(?:us|me|people)|bluffing|playing us|making (?:it|things|this) up|up to something|"
    r"not to be trusted|(?:\w+ ){0,3}(?:prime |top |main |first |biggest )?suspects?)"
)
_FINE = (
    r"(?:trustworthy|honest|genuine|sincere|reliable|believable|credible|telling (?:us )?the truth|"
    r"truthful|fine|okay|ok|safe|above suspicion|not suspicious)"
)
VERDICT = re.compile(
    rf"{WHO.replace('|both', '')}(?:'s \w+)? (?:{BE}|{MODAL}|has been|have been|seem|acts?|"
    rf"behaves?) (?:a bit |a little |kind of |being )?{ADVERB}(?P<neg>not |no |never )?{ADVERB}"
    rf"(?:the |an? |one of the |a bit |a little |kind of ){{0,2}}(?:most |very |more |highly )?"
    rf"(?:(?P<bad>{_BAD})|(?P<fine>{_FINE}))\b"
)

VOTE = re.compile(
    rf"\bi (?P<aux>(?:think i will|do not (?:plan|intend|want) to|will|shall|am|am going to|"
    rf"plan to|intend to|want to|have decided to|must|would like to|refuse to|hereby|have to|still|"
    rf"would|can|could|am ready to|will put|am putting|put|cast|prefer to|choose to|am about to|"
    rf"am leaning towards?) )?{ADVERB}(?P<neg>not |never )?{ADVERB}(?:going to |planning to |"
    rf"willing to |ready to )?"
    r"(?:be )?(?:voting|vote|cast my vote|casting my vote|my vote)(?: (?:to eliminate|to lynch|out|"
    r"for|against|on))* (?P<who>@[\d+]+|you\b)|\bmy vote (?:today )?(?:goes to|is for|is on|"
    r"will be for|will go to|is|today is for)(?P<neg2> not)? (?P<who2>@[\d+]+)"
)
NO_VOTE = re.compile(
    r"i (?:will|shall|am|am going to|do) not (?:going to )?(?:vote|voting)"
    r"(?: today| at all| for anyone| this time)?"
)
ACT = re.compile(
    r"\bi (?P<aux>(?:will|shall|am|am going to|plan to|intend to|want to|promise to|"
    r"have decided to|"
    r"think i will|do not (?:plan|intend|want) to|must|can|hereby|gladly|prefer to|choose to|"
    r"refuse to|have to|do|would like to|am happy to|am voting|will vote|vote|would vote|voting|"
    rf"voted|would be happy to|like this team and will|am going to vote|plan to vote|"
    rf"intend to vote) )?{ADVERB}(?P<neg>not |never )?{ADVERB}"
    r"(?:going to |ready to |happy to |willing to |planning to |prepared to |voting |vote |"
    r"leaning towards? |leaning to |leaning |inclined to )?(?:be )?(?:to )?(?:play )?"
    r"(?:an? |my |the )?&(?P<act>\d+)(?! (?:when|after|once|any|anything|everything|"
    r"eliminating)\b)|\bi would &(?P<act4>\d+)$|\b(?:has|have) my &(?P<act3>\d+)|\bmy vote "
    r"(?:is|will be) (?P<neg2>not )?(?:to )?&(?P<act2>\d+)"
)

_COMMON = """
a about above after again all also am among an and answer any anyone are as ask at away back be
because been before being believe best better both but by call can card cards chance check choose
comment come could day days dead deal decide did die do does done down each else end enough even
every everybody everyone everything explain fair far few find first fly for found from game get
give go going gone good got great guess had hand happen hard has have he hear hello help her here
hi him his how i idea if in info information into is it its just keep kill killed know last later
leave left less let like little long look lost luck made make many matter maybe me mean might mine
more morning most move much must my name need never new next nice night no nobody none nor not
nothing now of off offer ok okay on once one only or other our out over pass pity place play played
player players please point points power protect protected put quiet quite rather read real really
reason reveal right role roles round said same save saved saw say says see seem send seen she should
show silent since so some somebody someone something soon sorry split stay still stop sure take
talk team tell than thank thanks that the their them then there these they thing things think this
those though thought time to today together told tomorrow tonight too total true truth try turn two
under understand until up us use very vote voted votes voting wait want was watch way we well went
were what when where whether which while who whoever whole whom why will win wish with without word
words work would wrong yes yesterday yet you your yours reasonable careful carefully low early
secret mission missions question suspicious accuse trust speak hold three four five comes goes
lose loses lied lie quick fairly share rest
"""
COMMON_WORDS = frozenset(_COMMON.split())
"""Common English words. A speech without claims counts as read if half of its words are known."""
