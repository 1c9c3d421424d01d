//! The client's address in expressions: networks that it may be in, and texts that it is compared with.

use std::net::IpAddr;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::{InvalidExpression, network_variable};
use crate::network;
use crate::network::AddressText;

/// Checks the texts that a call within this loop compares with the client's address. Returns a warning.
pub(crate) fn check_texts(
    call: &CallExpr,
    within: Option<&ComprehensionExpr>,
) -> Result<Option<String>, InvalidExpression> {
    let name = call.func_name.as_str();
    let operands: Vec<&IdedExpr> = call
        .target
        .as_deref()
        .into_iter()
        .chain(&call.args)
        .collect();
    let of_lists = operands.iter().flat_map(|it| match &it.expr {
        Expr::List(list) if name == IN => &list.elements[..],
        Expr::Ident(variable) => elements_of(variable, within),
        _ => &[],
    });
    let operands: Vec<&IdedExpr> = of_lists.chain(operands.iter().copied()).collect();
    if !operands.iter().any(|it| is_client_address(it)) {
        return Ok(None);
    }
    let is_of_parts = PARTS.contains(&name);
    let texts = operands.iter().filter_map(|it| text(it));
    for text in texts {
        match network::classify(text) {
            AddressText::Network => {
                return Err(InvalidExpression::NetworkAsText(text.to_owned()));
            }
            AddressText::Other(canonical) if EQUALITY.contains(&name) => {
                return Err(InvalidExpression::NotCanonical(text.to_owned(), canonical));
            }
            AddressText::Neither if EQUALITY.contains(&name) => {
                return Err(InvalidExpression::NoAddress(text.to_owned()));
            }
            _ => {}
        }
    }
    Ok(is_of_parts.then(|| {
        format!(
            "{name}() compares client.address as text, where 10.1 is also the beginning of 10.100.0.0: use \
             cidr('10.1.0.0/16').contains(client.address)"
        )
    }))
}

/// The values of a loop's variable, if they are written in the expression.
fn elements_of<'a>(variable: &str, within: Option<&'a ComprehensionExpr>) -> &'a [IdedExpr] {
    let range = within.filter(|it| it.iter_var == variable);
    match range.map(|it| &it.iter_range.expr) {
        Some(Expr::List(list)) => &list.elements,
        _ => &[],
    }
}

/// Whether a function may have the client's address as an operand. All others would compare it as a text.
pub(crate) fn takes_address(function: &str) -> bool {
    EQUALITY.contains(&function) || PARTS.contains(&function)
}

/// The network of `cidr('…').contains(client.address)`; `None` for other calls.
pub(crate) fn network_of(call: &CallExpr) -> Result<Option<(IpAddr, u8)>, InvalidExpression> {
    if call.func_name == CIDR {
        return Err(InvalidExpression::Cidr);
    }
    let target = call.target.as_deref().map(|it| &it.expr);
    let Some(Expr::Call(cidr)) =
        target.filter(|it| matches!(it, Expr::Call(it) if it.func_name == CIDR))
    else {
        return Ok(None);
    };
    let is_contains = ["contains", "containsIP"].contains(&&*call.func_name);
    match (&cidr.target, &*cidr.args, &*call.args) {
        (None, [network], [address]) if is_contains && is_client_address(address) => {
            let network = text(network).ok_or(InvalidExpression::Cidr)?;
            Ok(Some(network::parse(network)?))
        }
        _ => Err(InvalidExpression::Cidr),
    }
}

/// Replaces each `cidr('…').contains(client.address)` by the variable that has its result, so that
/// evaluation cannot fail.
pub(crate) fn replace_networks(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Call(call) => {
            if let Ok(Some(network)) = network_of(call) {
                expression.expr = Expr::Ident(network_variable(network));
                return;
            }
            call.target.iter_mut().for_each(|it| replace_networks(it));
            call.args.iter_mut().for_each(replace_networks);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(replace_networks),
        Expr::Select(select) => replace_networks(&mut select.operand),
        Expr::Comprehension(it) => {
            let it = &mut **it;
            for part in [
                &mut it.iter_range,
                &mut it.accu_init,
                &mut it.loop_cond,
                &mut it.loop_step,
                &mut it.result,
            ] {
                replace_networks(part);
            }
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) => {}
    }
}

fn is_client_address(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Select(select) if is_client_address_of(select))
}

pub(crate) fn is_client_address_of(select: &SelectExpr) -> bool {
    matches!(&select.operand.expr, Expr::Ident(root) if root == "client")
        && select.field == "address"
        && !select.test
}

/// The text of a literal.
pub(super) fn text(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Functions whose text has to be the whole address.
const EQUALITY: [&str; 3] = ["_==_", "_!=_", IN];

/// Functions of a part of a text, which are warned about.
const PARTS: [&str; 3] = ["startsWith", "endsWith", "contains"];

/// The search in a list.
pub(crate) const IN: &str = "@in";

/// The function of networks.
const CIDR: &str = "cidr";

#[cfg(test)]
mod tests {
    use crate::policy::expression::Expression;

    #[test]
    fn networks_and_whole_addresses_compile() {
        for text in [
            "client.address in ['10.0.0.1', '2001:db8::1']",
            "client.address in claims.addresses",
            "claims.address in [client.address, '10.0.0.1']",
            "claims.addresses.exists(a, a == client.address)",
            "has(client.address)",
            "cidr('10.0.0.0/8').contains(client.address)",
            "claims.a == 'b' || !cidr('2001:db8::/32').containsIP(client.address)",
            "claims.roles.exists(r, r == 'a' && cidr('::/0').contains(client.address))",
        ] {
            let expression = Expression::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(
                expression.networks().is_empty(),
                !text.contains("cidr("),
                "{text}"
            );
        }
    }

    #[test]
    fn parts_of_addresses_are_warned_about() {
        for (text, count) in [
            ("client.address.startsWith('10.')", 1),
            (
                "client.address.endsWith('.1') || client.address.contains('1')",
                2,
            ),
            ("client.address == '10.0.0.1'", 0),
            ("request.path.startsWith('10.')", 0),
        ] {
            let warnings = Expression::parse(text).expect(text).warnings().to_vec();
            assert_eq!(warnings.len(), count, "{warnings:?}");
            assert!(
                warnings.iter().all(|it| it.contains("use cidr(")),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn what_never_equals_an_address_is_refused() {
        for (text, part) in [
            ("cidr('10.0.0.0/8')", "uses cidr() in a form"),
            (
                "cidr(claims.net).contains(client.address)",
                "uses cidr() in a form",
            ),
            (
                "cidr('10.0.0.0/8').contains(claims.ip)",
                "uses cidr() in a form",
            ),
            (
                "cidr('10.0.0.0/8').contains('10.0.0.1')",
                "uses cidr() in a form",
            ),
            (
                "cidr('10.0.0.0/8').startsWith(client.address)",
                "uses cidr() in a form",
            ),
            (
                "cidr('10.0.0.0/8') == client.address",
                "uses cidr() in a form",
            ),
            (
                "['10.0.0.0/8'].exists(n, cidr(n).contains(client.address))",
                "uses cidr() in a form",
            ),
            (
                "cidr('10.0.0.1/8').contains(client.address)",
                "write `10.0.0.0/8`",
            ),
            (
                "cidr('10.0.0.1').contains(client.address)",
                "write `10.0.0.1/32`",
            ),
            (
                "cidr('office').contains(client.address) || true",
                "`office` is not a network",
            ),
            (
                "client.address == '10.0.0.0/8'",
                "write cidr('10.0.0.0/8').contains(client.address)",
            ),
            (
                "client.address.startsWith('10.0.0.0/8')",
                "write cidr('10.0.0.0/8')",
            ),
            ("'2001:DB8::1' != client.address", "write `2001:db8::1`"),
            (
                "client.address in ['10.0.0.1', '::ffff:10.0.0.2']",
                "write `10.0.0.2`",
            ),
            ("'10.0.0.0/8' in [client.address]", "write cidr("),
            (
                "['2001:DB8::1'].exists(a, a == client.address)",
                "write `2001:db8::1`",
            ),
            ("['10.'].all(a, client.address != a)", "which is no address"),
        ] {
            refuse(text, part);
        }
    }

    #[test]
    fn an_address_that_would_be_a_text_is_refused() {
        for (text, part) in [
            (
                "client.address >= '10.0.0.0' && client.address <= '10.255.255.255'",
                "compares it as text",
            ),
            (
                "[client.address].exists(a, a.startsWith('10.'))",
                "compares it as text",
            ),
            (
                "(claims.a == 'b' ? client.address : '') == '10.0.0.0/8'",
                "compares it as text",
            ),
            ("size(client.address) == 9", "compares it as text"),
            ("client.address", "compares it as text"),
            (
                "claims.x.exists(client, cidr('10.0.0.0/8').contains(client.address))",
                "a loop variable `client`",
            ),
            (
                "claims.x.all(request, request.path)",
                "a loop variable `request`",
            ),
            ("client.address == '10.'", "which is no address"),
        ] {
            refuse(text, part);
        }
    }

    fn refuse(text: &str, part: &str) {
        let why = Expression::parse(text).expect_err(text).to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
}
