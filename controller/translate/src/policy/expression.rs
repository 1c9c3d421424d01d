//! Expressions of authorization rules: a subset of CEL that evaluates in time linear in its input,
//! and with little memory.
//!
//! The controller compiles them to report errors, proxies to evaluate them.

mod addresses;
mod requests;

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};
use cel::{Context, Env, ExecutionError, Value};
use thiserror::Error;

use crate::network::InvalidNetwork;
use addresses::{
    IN, check_texts, is_client_address_of, network_of, replace_networks, takes_address,
};
use requests::impossible;

/// Why a text is not a valid expression of a rule, with advice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidExpression {
    /// It exceeds the length limit.
    #[error("has more than {EXPRESSION_BYTES} bytes; split it into several rules")]
    TooLong,
    /// It is not CEL.
    #[error("is not CEL: {0}")]
    Syntax(String),
    /// It uses an unknown name.
    #[error(
        "`{0}` is unknown: use claims, request.method, request.host, request.path, \
             request.headers and client.address"
    )]
    Unknown(String),
    /// It uses a function that may be slow, or is not available.
    #[error(
        "`{0}` is not supported: use comparisons, !, &&, ||, ?:, in, has(), size(), \
             startsWith(), endsWith(), contains(), exists() and all() of lists, and \
             cidr('10.0.0.0/8').contains(client.address)"
    )]
    Unavailable(String),
    /// It has nested loops, which take quadratic time.
    #[error("nests exists() or all(); split it into several rules")]
    Nested,
    /// It uses `cidr()` in another way than with a literal, for the client's address.
    #[error(
        "uses cidr() in a form that is not supported: write cidr('10.0.0.0/8').contains(client.address), with \
             the network in quotes"
    )]
    Cidr,
    /// The network of `cidr()` is invalid.
    #[error("{0}")]
    Network(#[from] InvalidNetwork),
    /// It compares the client's address with a network, as text.
    #[error(
        "compares client.address with the network `{0}` as text, which is never true: write \
             cidr('{0}').contains(client.address)"
    )]
    NetworkAsText(String),
    /// It compares the client's address with a text that is written differently.
    #[error("compares client.address with `{0}` as text, which it never equals: write `{1}`")]
    NotCanonical(String, String),
    /// It compares the client's address with a text that is none.
    #[error(
        "compares client.address with `{0}`, which is no address: write a whole one, or use cidr()"
    )]
    NoAddress(String),
    /// It uses the client's address as a text of no known meaning.
    #[error(
        "uses client.address in a way that compares it as text, where 10.9.0.0 is after 10.10.0.0: use it with \
             ==, != or in, or write cidr('10.0.0.0/8').contains(client.address)"
    )]
    AddressAsText,
    /// Its loop has a variable with the name of another value.
    #[error("has a loop variable `{0}`, which is the name of another value; rename the variable")]
    LoopVariable(String),
    /// It is not a boolean.
    #[error("does not evaluate to a boolean; add a comparison")]
    NoCondition,
}

/// A CEL expression that was parsed and checked, ready to evaluate.
#[derive(Debug)]
pub struct Expression {
    /// With [`network_variable`] in the place of `cidr()`.
    condition: IdedExpr,
    reads_claims: bool,
    reads_headers: bool,
    networks: Vec<(IpAddr, u8)>,
    warnings: Vec<String>,
    impossible: Vec<String>,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// It is invalid or not supported.
    pub fn parse(text: &str) -> Result<Self, InvalidExpression> {
        if text.len() > EXPRESSION_BYTES {
            return Err(InvalidExpression::TooLong);
        }
        let program = ENV.compile(text).map_err(|errors| {
            let text = errors.to_string();
            let first = text.lines().find(|line| !line.trim().is_empty());
            InvalidExpression::Syntax(first.unwrap_or("it cannot be parsed").trim().to_owned())
        })?;
        let mut check = Check::default();
        check.expression(program.expression())?;
        if !is_condition(program.expression()) {
            return Err(InvalidExpression::NoCondition);
        }
        let Check {
            reads_claims,
            reads_headers,
            networks,
            warnings,
            impossible,
            ..
        } = check;
        let mut condition = program.expression().clone();
        if !networks.is_empty() {
            replace_networks(&mut condition);
        }
        Ok(Self {
            condition,
            reads_claims,
            reads_headers,
            networks,
            warnings,
            impossible,
        })
    }

    /// Evaluates it with the variables of a context of [`environment`].
    ///
    /// # Errors
    ///
    /// It reads what is not there, or compares values of different types.
    pub fn evaluate(&self, context: &Context<'_, '_>) -> Result<Value, ExecutionError> {
        context.resolve(&self.condition)
    }

    /// The networks that it compares the client's address with. The variable [`network_variable`] says whether the
    /// address is in one.
    #[must_use]
    pub fn networks(&self) -> &[(IpAddr, u8)] {
        &self.networks
    }

    /// What may not mean what it seems to, with advice.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Comparisons that are never true, or always, with advice.
    #[must_use]
    pub fn impossible(&self) -> &[String] {
        &self.impossible
    }

    /// Whether it reads claims of the token.
    #[must_use]
    pub fn reads_claims(&self) -> bool {
        self.reads_claims
    }

    /// Whether it reads headers.
    #[must_use]
    pub fn reads_headers(&self) -> bool {
        self.reads_headers
    }
}

/// The functions that programs call.
#[must_use]
pub fn environment() -> Arc<Env> {
    Arc::clone(&ENV)
}

/// The variable that says whether the client's address is in a network. It has a name that cannot be written.
#[must_use]
pub fn network_variable((address, length): (IpAddr, u8)) -> String {
    format!("{address}/{length}")
}

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

#[derive(Default)]
struct Check<'a> {
    within: Option<&'a ComprehensionExpr>,
    reads_claims: bool,
    reads_headers: bool,
    networks: Vec<(IpAddr, u8)>,
    warnings: Vec<String>,
    impossible: Vec<String>,
}

type Checked = Result<(), InvalidExpression>;

impl<'a> Check<'a> {
    fn expression(&mut self, expression: &'a IdedExpr) -> Checked {
        match &expression.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.all(&list.elements),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Map(_) => Err(InvalidExpression::Unavailable("{}".to_owned())),
            Expr::Struct(it) => Err(InvalidExpression::Unavailable(it.type_name.clone())),
            Expr::Unspecified => Err(InvalidExpression::NoCondition),
        }
    }

    fn all(&mut self, expressions: &'a [IdedExpr]) -> Checked {
        expressions.iter().try_for_each(|it| self.expression(it))
    }

    fn name(&mut self, name: &str) -> Checked {
        let is_of_loop = |it: &ComprehensionExpr| it.iter_var == name || it.accu_var == name;
        let is_of_loop = self.within.is_some_and(is_of_loop);
        self.reads_claims |= name == "claims";
        let known = name == "claims" || is_of_loop;
        known
            .then_some(())
            .ok_or_else(|| InvalidExpression::Unknown(name.to_owned()))
    }

    fn select(&mut self, select: &'a SelectExpr) -> Checked {
        let Expr::Ident(root) = &select.operand.expr else {
            return self.expression(&select.operand);
        };
        let fields: &[&str] = match root.as_str() {
            _ if self.within.is_some_and(|it| it.iter_var == *root) => return Ok(()),
            "request" => &["method", "host", "path", "headers"],
            "client" => &["address"],
            _ => return self.expression(&select.operand),
        };
        if !fields.contains(&select.field.as_str()) {
            return Err(InvalidExpression::Unknown(format!(
                "{root}.{}",
                select.field
            )));
        }
        if is_client_address_of(select) {
            // Calls that may read it do not come here for it.
            return Err(InvalidExpression::AddressAsText);
        }
        self.reads_headers |= root == "request" && select.field == "headers";
        Ok(())
    }

    fn call(&mut self, call: &'a CallExpr) -> Checked {
        if let Some(network) = network_of(call)? {
            self.networks.push(network);
            return Ok(());
        }
        self.warnings.extend(check_texts(call, self.within)?);
        self.impossible.extend(impossible(call));
        let name = call.func_name.as_str();
        let is_of_loop = self.within.is_some() && name == NOT_STRICTLY_FALSE;
        if !is_of_loop && !FUNCTIONS.contains(&name) {
            // Operators have names like `_+_`.
            let shown = name.trim_matches('_').to_owned();
            return Err(InvalidExpression::Unavailable(shown));
        }
        let mut operands = call.target.as_deref().into_iter().chain(&call.args);
        operands.try_for_each(|it| self.operand(name, it))
    }

    /// An operand of a function, or an element of a list that it searches.
    fn operand(&mut self, function: &str, operand: &'a IdedExpr) -> Checked {
        match &operand.expr {
            Expr::Select(select) if is_client_address_of(select) && takes_address(function) => {
                Ok(())
            }
            Expr::List(list) if function == IN => {
                let mut elements = list.elements.iter();
                elements.try_for_each(|it| self.operand(function, it))
            }
            _ => self.expression(operand),
        }
    }

    /// `exists` and `all`; other macros need functions that are not available.
    fn comprehension(&mut self, it: &'a ComprehensionExpr) -> Checked {
        if self.within.is_some() {
            return Err(InvalidExpression::Nested);
        }
        if it.iter_var2.is_some() {
            return Err(InvalidExpression::Unavailable(
                "two loop variables".to_owned(),
            ));
        }
        if ROOTS.contains(&&*it.iter_var) {
            // Its fields would be taken for those of the loop's elements, and the other way round.
            return Err(InvalidExpression::LoopVariable(it.iter_var.clone()));
        }
        self.expression(&it.iter_range)?;
        self.within = Some(it);
        for part in [&it.accu_init, &it.loop_cond, &it.loop_step, &it.result] {
            self.expression(part)?;
        }
        self.within = None;
        Ok(())
    }
}

/// Whether the value can be a boolean: the type of a claim is only known at run time.
fn is_condition(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Call(call) => call.func_name != "size",
        Expr::Select(select) => select.test || !is_text(&select.operand),
        Expr::Comprehension(_) => true,
        Expr::Literal(literal) => matches!(literal, LiteralValue::Boolean(_)),
        _ => false,
    }
}

/// Whether the fields of a value are texts, and not claims.
fn is_text(root: &IdedExpr) -> bool {
    matches!(&root.expr, Expr::Ident(root) if root == "request" || root == "client")
}

/// The variables that every expression has.
const ROOTS: [&str; 3] = ["claims", "request", "client"];

/// Functions available to rules.
const FUNCTIONS: [&str; 16] = [
    "!_",
    "_&&_",
    "_||_",
    "_?_:_",
    "_==_",
    "_!=_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "@in",
    "_[_]",
    "size",
    "startsWith",
    "endsWith",
    "contains",
];

/// A function that loops call.
const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";

/// Longest expression in bytes: 1 KiB, twenty comparisons.
pub const EXPRESSION_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::{EXPRESSION_BYTES, Expression};

    #[test]
    fn conditions_on_claims_and_requests_compile() {
        for (text, reads_headers) in [
            ("claims.group == 'admins'", false),
            ("'admin' in claims.realm_access.roles", false),
            ("has(claims.group) && claims.group in ['a', 'b']", false),
            ("claims['https://x/y'].startsWith('z')", false),
            (
                "claims.roles.exists(role, role == 'a' || role.endsWith('-admin'))",
                false,
            ),
            (
                "claims.roles.all(role, role.contains('x')) || size(claims.roles) == 0",
                false,
            ),
            (
                "request.method in ['GET', 'HEAD'] ? true : claims.level >= 3",
                false,
            ),
            ("request.headers['x-team'] == claims.team", true),
            ("'x-team' in request.headers", true),
            (
                "!request.path.startsWith('/admin/') && request.host != 'a'",
                false,
            ),
            ("client.address == '10.0.0.1'", false),
            ("claims.verified", false),
            ("true", false),
        ] {
            let expression = Expression::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(expression.reads_headers(), reads_headers, "{text}");
            assert_eq!(expression.reads_claims(), text.contains("claims"), "{text}");
        }
    }

    #[test]
    fn an_invalid_rule_is_rejected_with_the_reason() {
        let long = format!("claims.a == '{}'", "x".repeat(EXPRESSION_BYTES));
        for (text, part) in [
            ("", "is not CEL"),
            ("claims.", "is not CEL"),
            ("group == 'a'", "`group` is unknown"),
            ("request.body == ''", "`request.body` is unknown"),
            ("client.port == 1", "`client.port` is unknown"),
            ("claims.a.matches('(a+)+')", "`matches` is not supported"),
            ("claims.a + claims.a == 'aa'", "`+` is not supported"),
            ("claims.roles.map(r, r) == []", "is not supported"),
            ("claims.roles.filter(r, true) == []", "is not supported"),
            (
                "claims.a.exists(x, claims.b.all(y, x == y))",
                "nests exists() or all()",
            ),
            ("claims == {'a': 1}", "`{}` is not supported"),
            ("'a'", "does not evaluate to a boolean"),
            ("request.path", "does not evaluate to a boolean"),
            ("size(claims.a)", "does not evaluate to a boolean"),
            (&long, "more than 1024 bytes"),
        ] {
            let why = Expression::parse(text).expect_err(text).to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
