//! Symbolization of return addresses, cached per profile.

use std::collections::HashMap;

/// A function at an address. An address has several where functions were inlined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// Path of the source file; empty where unknown.
    pub(super) file: String,
    /// Line in the source file; 0 where unknown.
    pub(super) line: u32,
}

/// The symbols looked up so far.
#[derive(Debug, Default)]
pub(super) struct Symbols(HashMap<usize, Vec<Symbol>>);

impl Symbols {
    /// The functions at a return address, the innermost first; at least one.
    pub(super) fn of(&mut self, address: usize) -> &[Symbol] {
        self.0.entry(address).or_insert_with(|| look_up(address))
    }

    /// A stack in the folded format of flame graphs: `outer;inner`.
    pub(super) fn path(&mut self, stack: &[usize]) -> String {
        let mut names = Vec::new();
        for &address in stack.iter().rev() {
            let functions = self.of(address).iter().rev();
            names.extend(functions.map(|symbol| symbol.name.replace(';', ",")));
        }
        names.join(";")
    }
}

fn look_up(address: usize) -> Vec<Symbol> {
    let mut found = Vec::new();
    // The call instruction precedes the return address, which may belong to another line.
    let call = std::ptr::without_provenance_mut(address.saturating_sub(1));
    backtrace::resolve(call, |symbol| {
        let file = symbol.filename().map(|path| path.display().to_string());
        let file = file.unwrap_or_default();
        let name = symbol.name().map(|name| placed(format!("{name:#}"), &file));
        found.push(Symbol {
            name: name.unwrap_or_else(|| unnamed(address)),
            file,
            line: symbol.lineno().unwrap_or_default(),
        });
    });
    if found.is_empty() {
        found.push(Symbol {
            name: unnamed(address),
            file: String::new(),
            line: 0,
        });
    }
    found
}

/// A function's name, prefixed with its file where it is anonymous: with our debug information, inlined
/// functions are named only `{async_fn#0}` or `{closure#1}`.
fn placed(name: String, file: &str) -> String {
    let place = file.rsplit_once("/src/").and_then(|(folders, file)| {
        let package = folders.rsplit('/').next()?;
        Some(format!("{package}/{file}"))
    });
    match place {
        Some(place) if name.starts_with('{') => format!("{place} {name}"),
        _ => name,
    }
}

fn unnamed(address: usize) -> String {
    format!("{address:#x}")
}

#[cfg(test)]
mod tests {
    use super::placed;

    #[test]
    fn anonymous_functions_are_named_by_their_file() {
        for (name, file, expected) in [
            (
                "{async_fn#0}<u8>",
                "/a/src/b/proxy/src/request/mod.rs",
                "proxy/request/mod.rs {async_fn#0}<u8>",
            ),
            ("{closure#0}", "mod.rs", "{closure#0}"),
            ("{closure#0}", "", "{closure#0}"),
            ("poll<u8>", "/a/src/mod.rs", "poll<u8>"),
            ("{impl#1}", "core/src/task.rs", "core/task.rs {impl#1}"),
        ] {
            assert_eq!(placed(name.to_owned(), file), expected);
        }
    }
}
