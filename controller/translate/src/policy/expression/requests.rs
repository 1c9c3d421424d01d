//! Texts that parts of a request are compared with, and never are.

use std::net::Ipv6Addr;

use cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::addresses::{IN, text};

/// Why a comparison with a part of the request is never true, or always, with what to write.
pub(super) fn impossible(call: &CallExpr) -> Vec<String> {
    let name = call.func_name.as_str();
    let operands = call.target.as_deref().into_iter().chain(&call.args);
    let operands: Vec<&IdedExpr> = operands.collect();
    let [first, second] = operands[..] else {
        return Vec::new();
    };
    let (part, compared) = match (part_of(first), part_of(second)) {
        (Some("headers"), _) if name == INDEX => return no_header_name(second),
        (_, Some("headers")) if name == IN => return no_header_name(first),
        (Some(part), None) => (part, second),
        (None, Some(part)) if name != IN => (part, first),
        _ => return Vec::new(),
    };
    let texts = match &compared.expr {
        Expr::List(list) => list.elements.iter().filter_map(text).collect(),
        _ => Vec::from_iter(text(compared)),
    };
    let texts = texts.into_iter();
    texts.filter_map(|it| why_never(part, it, name)).collect()
}

/// The field of `request` that an expression is.
fn part_of(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Select(select) if !select.test => {
            let is_request = matches!(&select.operand.expr, Expr::Ident(root) if root == "request");
            is_request.then_some(&*select.field)
        }
        _ => None,
    }
}

fn no_header_name(name: &IdedExpr) -> Vec<String> {
    let name = text(name).unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    if lower == name {
        return Vec::new();
    }
    vec![format!(
        "names of request.headers are in lower case, so none is `{name}`: write '{lower}'"
    )]
}

fn why_never(part: &str, text: &str, function: &str) -> Option<String> {
    let is_whole = EQUALITY.contains(&function);
    let is_start = is_whole || function == "startsWith";
    match part {
        "method" if is_whole => {
            let upper = text.to_ascii_uppercase();
            (upper != text)
                .then(|| format!("methods are in upper case, so none is `{text}`: write '{upper}'"))
        }
        "host" => {
            let lower = text.to_ascii_lowercase();
            if let Ok(address) = text.parse::<Ipv6Addr>() {
                is_whole.then(|| {
                    format!("request.host has IPv6 addresses in brackets: write '[{address}]'")
                })
            } else if text.contains('/') || has_port(text, function) {
                Some(format!(
                    "request.host has neither scheme nor port, so it never has `{text}`: write the name alone"
                ))
            } else {
                (lower != text).then(|| {
                    format!(
                        "request.host is in lower case, so it never has `{text}`: write '{lower}'"
                    )
                })
            }
        }
        "path" if text.contains(['?', '#']) => Some(format!(
            "request.path is without query, so it never has `{text}`: leave out what begins with `?`"
        )),
        "path" if is_start && !text.is_empty() && !text.starts_with('/') => Some(format!(
            "request.path begins with a slash, so it never is or begins with `{text}`: write '/{text}'"
        )),
        _ => None,
    }
}

/// Whether a text with a host, or a part of one, has a port: the colons of an IPv6 address, in brackets, are before
/// none.
fn has_port(text: &str, function: &str) -> bool {
    let in_address = |it: u8| it.is_ascii_hexdigit() || b":.[]".contains(&it);
    let is_part = function == "contains" || function == "startsWith";
    if text.starts_with('[') || text.ends_with(']') || is_part && text.bytes().all(in_address) {
        let after = text.rsplit_once(']').map(|(_, after)| after);
        return after.is_some_and(|it| it.starts_with(':'));
    }
    text.contains(':')
}

/// Functions that compare the whole text.
const EQUALITY: [&str; 3] = ["_==_", "_!=_", IN];
/// Access to a field by its name.
const INDEX: &str = "_[_]";

#[cfg(test)]
mod tests {
    use super::super::Expression;

    #[test]
    fn what_a_request_never_has_is_noticed() {
        for (expression, part) in [
            ("request.method == 'get'", Some("write 'GET'")),
            ("request.method in ['GET', 'post']", Some("write 'POST'")),
            ("'delete' != request.method", Some("write 'DELETE'")),
            ("request.host == 'App.Example'", Some("write 'app.example'")),
            (
                "request.host == 'app.example:8080'",
                Some("neither scheme nor port"),
            ),
            ("request.host.endsWith('.Example')", Some("in lower case")),
            ("request.host == '[2001:db8::1]'", None),
            (
                "request.host == '[2001:db8::1]:80'",
                Some("neither scheme nor port"),
            ),
            (
                "request.host == '2001:db8::1'",
                Some("write '[2001:db8::1]'"),
            ),
            ("request.host == '[2001:DB8::1]'", Some("in lower case")),
            ("request.host.startsWith('[2001:db8:')", None),
            ("request.host.contains(':')", None),
            ("request.host.endsWith('::1]')", None),
            (
                "request.host.endsWith(':8080')",
                Some("neither scheme nor port"),
            ),
            ("request.path == 'admin'", Some("write '/admin'")),
            ("request.path.startsWith('admin/')", Some("write '/admin/'")),
            ("request.path == '/a?b=c'", Some("without query")),
            ("request.headers['X-Team'] == 'a'", Some("write 'x-team'")),
            ("'X-Team' in request.headers", Some("write 'x-team'")),
            (
                "request.method == 'GET' && request.path.contains('a')",
                None,
            ),
            (
                "request.host in ['a.b'] || request.headers['x-a'] == 'B'",
                None,
            ),
            ("request.path.endsWith('.php') || claims.Sub == 'X'", None),
            ("request.headers['x-team'] == claims.team", None),
        ] {
            let parsed = Expression::parse(expression).expect(expression);
            let found = parsed.impossible().join("; ");
            match part {
                Some(part) => assert!(found.contains(part), "{expression}: {found}"),
                None => assert_eq!(found, "", "{expression}"),
            }
        }
    }
}
