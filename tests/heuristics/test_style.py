"""3.2: one name in every casing style; five languages; the things that real tool lists taught."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heuristics import classify, default_lexicon

LEXICON = default_lexicon()
# HTTP methods are left out: at the end or head of a camel-case operation id they decide, elsewhere they do not.
METHODS = {"get", "head", "options", "post", "put", "patch", "delete"}
LISTED = sorted({*LEXICON.verbs, *LEXICON.tails, *LEXICON.heads} - METHODS)
WORDS = st.sampled_from([word for word in LISTED if word.isascii() and word.isalpha() and len(word) > 1])
UNKNOWN = st.sampled_from(["cart", "guest", "widget", "frob"])


@given(words=st.lists(WORDS | UNKNOWN, min_size=1, max_size=5))
def test_p3_2_the_same_words_are_judged_the_same_in_every_style(words: list[str]) -> None:
    """3.2: snake, kebab, camel, Pascal, upper case and spaces."""
    capitals = [word.title() for word in words]
    styles = [
        "_".join(words),
        "-".join(words),
        words[0] + "".join(capitals[1:]),
        "".join(capitals),
        "_".join(words).upper(),
        " ".join(words),
    ]
    assert len({classify(style).side_effecting for style in styles}) == 1


@pytest.mark.parametrize(
    "name",
    [
        *("crear_pedido", "añadirAlCarrito", "realizar_pago", "programar_cita", "devolver_producto"),
        *("criar_pedido", "cria_pedido", "atualizar_endereço", "agendar_consulta", "emitir_nota_fiscal"),
        *("créer_commande", "annuler_réservation", "effectuer_paiement", "mettre_a_jour_client", "ajouter_au_panier"),
        *("bestellung_aufgeben", "storniere_bestellung", "kunde_loeschen", "lösche_kunde", "termin_verschieben"),
        *("creare_ordine", "effettuare_ordine", "cancella_ordine", "paga_fattura", "prenotare_tavolo"),
    ],
)
def test_k5_09_acts_in_five_languages_are_known_by_their_verb(name: str) -> None:
    """3.2: side-effecting for a reason, not for want of one; accents or not."""
    verdict = classify(name)
    assert verdict.side_effecting
    assert verdict.verb is not None


@pytest.mark.parametrize(
    "name",
    [
        *("listar_pedidos", "estado_del_pedido", "historial_pedidos", "verificar_disponibilidad", "ver_pedido"),
        *("exibir_menu", "status_do_pedido", "rastrear_pedido", "pesquisar_voos", "verificar_disponibilidade"),
        *("lister_commandes", "vérifier_disponibilité", "rechercher_vols", "statut_commande"),
        *("zeige_bestellung", "prüfe_verfügbarkeit", "verfuegbarkeit_pruefen", "hole_kunde", "bestellungen_auflisten"),
        *("cercare_prodotti", "vedi_ordine", "controlla_disponibilità", "mostra_ordine", "stato_ordine"),
    ],
)
def test_k5_09_reads_in_five_languages_are_reads(name: str) -> None:
    """3.2: 'del' in 'estado del pedido' deletes nothing."""
    assert not classify(name).side_effecting


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("post-shopping-list", True),
        ("post_status", False),
        ("begin_export", True),
        ("simulate_payment", True),
        ("sandbox_transfer_simulate", True),
        ("simulate_loan", False),
        ("ads_execute_entity_report", True),
        ("run_report", False),
        ("account_login_list", False),
        ("ticket_reply_list", False),
        ("user_login", True),
        ("sales_by_region", False),
        ("store_health_check", False),
        ("email_autocomplete", False),
        ("compute_exchange_rate", False),
        ("agento11y_list_runs", False),
        ("invite_members", True),
        ("exchange_currencies", True),
        ("invoices.refunds", True),
        ("import_messages", True),
        ("import_customer_statements", True),
        ("store_metadata", True),
        ("share_results", True),
        ("collect_earnings", True),
        ("chat_messages", True),
        ("import_status", False),
        ("backup_history", False),
        ("cluster_logs", False),
        ("no_show", True),
        ("list_no_shows", False),
        ("export_orders", False),
        ("export_sales_report", True),
        ("export_report_status", False),
        ("get_report_export", False),
        ("exportJobs", True),
        ("ask_assistant", True),
        ("ask_question", False),
    ],
)
def test_p3_2_acts_and_reads_that_look_alike(name: str, expected: bool) -> None:
    """3.2: what one more word changes."""
    assert classify(name).side_effecting is expected


@pytest.mark.parametrize(
    ("name", "verb"),
    [("hosting_importSite", "import"), ("domains_purchaseDomainV1", "purchase"), ("get_orderItems", "get")],
)
def test_p3_2_camel_case_behind_a_namespace_is_the_name(name: str, verb: str) -> None:
    """3.2: unless the words before it already hold the verb."""
    assert classify(name).verb == verb
