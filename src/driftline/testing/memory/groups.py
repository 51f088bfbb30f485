"""Consumer groups: which member owns which partition. No threads, no time.

Deterministic and cooperative: partition p belongs to member p mod n of the members sorted by name. It gets its new
owner only after the old one was told, or at once when the old one expires.
"""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Member:
    """One member of a group; ``owned`` are the partitions it was told of, ``target`` those it shall get."""

    name: str
    serial: int
    owned: set[int] = field(default_factory=set)
    target: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)


class Group:
    """The members that share the partitions of one topic."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._members: list[Member] = []
        self._joins = 0

    def join(self, name: str) -> Member:
        """Add a member; two members may have one name, as two clients may have one id."""
        self._joins += 1
        member = Member(name, self._joins)
        self._members.append(member)
        self._rebalance()
        return member

    def leave(self, member: Member) -> None:
        """Remove a member and free its partitions; does nothing if it has left already."""
        if member in self._members:
            self._members.remove(member)
            member.owned.clear()
            self._rebalance()

    def expire(self, name: str) -> None:
        """Remove the members of this name and take their partitions at once; they join again at their next poll."""
        for member in [member for member in self._members if member.name == name]:
            member.lost |= member.owned
            self.leave(member)

    def resize(self, partitions: int) -> None:
        """Change the number of partitions, after the topic was deleted and created again."""
        if partitions != self._partitions:
            self._partitions = partitions
            self._rebalance()

    def revoked(self, member: Member) -> tuple[tuple[int, ...], bool] | None:
        """Revoke the partitions that a member shall not keep; return them, and whether they were lost at once."""
        if member.lost:
            lost = tuple(sorted(member.lost))
            member.lost.clear()
            return lost, True
        given_up = tuple(sorted(member.owned - member.target))
        member.owned &= member.target
        return (given_up, False) if given_up else None

    def assigned(self, member: Member) -> tuple[int, ...]:
        """Assign the free partitions that a member shall get; an expired member joins again first."""
        if member not in self._members:
            self._members.append(member)
            self._rebalance()
        owned = {partition for other in self._members for partition in other.owned}
        given = member.target - owned
        member.owned |= given
        return tuple(sorted(given))

    def owns(self, member: Member, partition: int) -> bool:
        """Whether a member owns a partition now."""
        return partition in member.owned

    def _rebalance(self) -> None:
        self._members.sort(key=lambda member: (member.name, member.serial))
        for index, member in enumerate(self._members):
            member.target = set(range(index, self._partitions, len(self._members)))
