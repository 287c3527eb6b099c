"""Names to use instead, for findings about a name. Pure; a suggestion, never part of a verdict.

What is offered is judged first: a name for an act is side-effecting and holds one of the platform's twelve verbs (3.1),
a name for a read is neither, and a name that the company uses already is offered to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from heuristics.classify import classify
from heuristics.naming import suggested_name
from heuristics.platform import PLATFORM_VERBS, platform_verb
from heuristics.rules.looked import Looked
from heuristics.words import split

__all__ = ["acting", "clearer", "either_way", "plainer", "reading", "renamed", "replaced_nouns"]

_LONGEST: Final = 64
_MOST: Final = 3

# Verb -> those of the platform's twelve that mean the same, the nearest first; what is not here has its group's (3.2).
_MEANT: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        verb: instead
        for verbs, instead in (
            ("finalise finalize complete conclude finish fulfil fulfill confirm capture settle", ("submit", "place")),
            ("buy purchase order preorder prebook repurchase", ("place", "create")),
            ("reserve rebook preempt hold schedule reschedule", ("book",)),
            ("charge recharge topup remit disburse donate repay prepay spend", ("pay",)),
            ("post", ("create", "submit")),
            ("insert append prepend attach upload register enrol enroll onboard invite join import", ("add",)),
            ("make mint clone duplicate replicate fork save write generate provision open start", ("create",)),
            ("upsert put persist store configure enable disable activate deactivate toggle mark", ("set", "update")),
            ("renew refresh rotate migrate convert apply restore reopen resume unpause pause", ("update",)),
            ("erase purge destroy drop wipe trash clear discard prune", ("delete", "remove")),
            ("detach unlink unassign unset uninstall deregister unregister archive revoke", ("remove",)),
            ("void abort terminate withdraw unsubscribe stop refuse reject decline revert undo", ("cancel",)),
            ("transfer refund return exchange", ("submit", "create")),
            ("restock replenish", ("update", "add")),
            ("verify reverify", ("update", "submit")),
            ("approve accept authorise authorize acknowledge sign subscribe redeem", ("submit",)),
            ("export copy", ("create",)),
            ("ask", ("submit",)),
            (
                "crear criar creer erstellen anlegen creare erstelle cria crea generar gerar generer erzeugen",
                ("create",),
            ),
            ("cancelar anular annuler stornieren abbrechen kundigen annullare storniere cancela annulla", ("cancel",)),
            ("anadir agregar adicionar ajouter rajouter hinzufugen einfugen aggiungere aggiungi agrega", ("add",)),
            ("actualizar atualizar actualiser aktualisieren aggiornare modificar alterar modifier andern", ("update",)),
            ("cambiar mudar changer cambiare modificare bearbeiten editar actualiza atualiza aggiorna", ("update",)),
            ("eliminar borrar apagar excluir supprimer effacer loschen eliminare cancellare elimina", ("delete",)),
            ("quitar remover retirer entfernen rimuovere rimuovi", ("remove",)),
            ("pagar cobrar payer zahlen bezahlen pagare paga bezahle", ("pay",)),
            ("comprar encomendar acheter commander passer kaufen bestellen aufgeben aufnehmen", ("place",)),
            ("comprare acquistare ordinare", ("place",)),
            ("reservar reserver buchen reservieren prenotare riservare reserva prenota buche", ("book",)),
            (
                "enviar mandar envoyer senden schicken inviare spedire solicitar demander anfordern richiedere",
                ("submit",),
            ),
        )
        for verb in verbs.split()
        for instead in [instead]
    }
)
# Nouns that hold one of the twelve, and others that say the same.
_NOUNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "booking": "reservation", "bookings": "reservations", "setting": "preference", "settings": "preferences",
        "payment": "transaction", "payments": "transactions", "updates": "changes", "placement": "position",
        "placements": "positions", "cancellation": "termination", "dataset": "collection", "datasets": "collections",
        "asset": "resource", "assets": "resources", "checkout": "cart", "address": "location", "addresses": "locations",
        "cancel": "termination", "update": "change", "book": "title", "pay": "salary", "submit": "draft",
    }
)  # fmt: skip


def acting(at: Looked, verbs: Sequence[str] = ()) -> list[str]:
    """The name with its verb replaced by those of the twelve that mean the same, or by the given ones."""
    verb = at.by_name.verb
    if verb is None:
        return []
    if not verbs and len(at.words) > 1 and "post" in (at.words[0], at.words[-1]):
        place = renamed if at.words[0] == "post" else _renamed_last  # an operation id with its HTTP method
        return _offered(at, (place(at.name, "post", each) for each in _MEANT["post"]))
    if verbs or (clear := suggested_name(at.name, lexicon=at.lexicon)) is None:
        return _offered(
            at, (_led(at, verb, each) or renamed(at.name, verb, each) for each in verbs or _meant(at, verb))
        )
    # The verb is hidden (`get_quote_and_hold`), or it is another one (`order_renewal` renews).
    if platform_verb(clear) is None and (other := classify(clear, lexicon=at.lexicon).verb) is not None:
        return _offered(at, (renamed(clear, other, each) for each in _meant(at, other)))
    return _offered(at, [clear])


def _meant(at: Looked, verb: str) -> tuple[str, ...]:
    entry = at.lexicon.verbs.get(verb)
    return _MEANT.get(verb) or (entry.instead if entry is not None else ())


def _led(at: Looked, verb: str, new: str) -> str | None:
    """`cart_finalise` -> `submit_cart`: a verb that ends a plain name leads the new one."""
    plain = "_" in at.name and at.name.replace("_", "").isalnum() and at.name.islower() and not at.around.prefix
    return "_".join([new, *at.words[:-1]]) if plain and len(at.words) > 1 and at.words[-1] == verb else None


def reading(at: Looked) -> list[str]:
    """The name with `get` for its verb."""
    verb = at.by_name.verb
    return [] if verb is None else _offered(at, [renamed(at.name, verb, "get")], acts=False)


def replaced_nouns(at: Looked) -> list[str]:
    """The name with other nouns for those that hold one of the twelve; none if one stays."""
    words = [word for word in at.words[1:] if word in _NOUNS and any(verb in word for verb in PLATFORM_VERBS)]
    name: str | None = at.name
    for word in words:
        name = None if name is None else _renamed_last(name, word, _NOUNS[word])
    return _offered(at, [name], acts=False) if words else []


def clearer(at: Looked) -> list[str]:
    """For a name whose verb is hidden, said as a noun, or misspelt: the name with that verb in front."""
    return _offered(at, [suggested_name(at.name, lexicon=at.lexicon)], acts=None)


def either_way(at: Looked) -> tuple[str, str] | None:
    """For a name without a verb: what it would be called as a read, and as an act."""
    words = at.words
    if not words or len(at.name) > _LONGEST - 7 or re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", at.name) is None:
        return None
    joint = "" if re.search(r"[a-z][A-Z]", at.name) else "-" if "-" in at.name and "_" not in at.name else "_"
    head, rest = at.name[:1], at.name[1:]
    tail = head.upper() + rest if not joint else head.lower() + rest if head.isupper() and rest.islower() else at.name
    read, act = _offered(at, [f"get{joint}{tail}"], acts=False), _offered(at, [f"update{joint}{tail}"])
    return (read[0], act[0]) if read and act else None


def plainer(at: Looked, longest: int) -> list[str]:
    """For a name that providers refuse: its words, joined by what every one takes; none if letters would be lost."""
    if not (at.name.isascii() and at.name.isprintable() and at.words and at.words[0].isalpha()) or "&" in at.words:
        return []
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", at.name.strip(" ._/:-")).strip("_")
    taken = {each.name for each in at.alike}
    return [plain] if 0 < len(plain) <= longest and plain not in taken and not at.around.uses(plain) else []


def renamed(name: str, verb: str, new: str) -> str | None:
    """The name with the first `verb` in it replaced, in its capitals; None where it is not found."""
    if len(name) > _LONGEST:
        return None
    found = re.search("[-_ .]?".join(map(re.escape, verb.split())), name, re.IGNORECASE)
    return None if found is None else _put(name, found, new)


def _renamed_last(name: str, word: str, new: str) -> str | None:
    found = None
    for found in re.finditer(re.escape(word), name, re.IGNORECASE):  # noqa: B007 (the last one)
        pass
    return None if found is None or len(name) > _LONGEST else _put(name, found, new)


def _put(name: str, found: re.Match[str], new: str) -> str:
    old = found[0]
    written = new.upper() if old.isupper() and len(old) > 1 else new.capitalize() if old[0].isupper() else new
    return name[: found.start()] + written + name[found.end() :]


def _offered(at: Looked, names: Iterable[str | None], *, acts: bool | None = True) -> list[str]:
    """Those that are new, free, and say what they should: an act, a read, or (None) only that they hold a verb."""
    found: dict[str, None] = {}
    for each in names:
        name = None if each is None else re.sub(r"[\s/:]+", "_", each)
        if name is None or name == at.name or at.around.uses(name) or len(split(name)) < 2 <= len(at.words):
            continue
        verdict = classify(name, prefix=at.around.prefix, lexicon=at.lexicon)
        if verdict.verb is None or (acts is not None and verdict.side_effecting is not acts):
            continue
        if acts is None or (platform_verb(name) is not None) is acts:
            found[name] = None
    return list(found)[:_MOST]
