from arena.core.claims import GameTalk
class RoleTalk(GameTalk): pass
