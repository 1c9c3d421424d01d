//! Names and lines of return addresses, each looked up once.

use std::collections::HashMap;

/// A function at an address. Several lie at one address where some were inlined into others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// Empty where it is not known.
    pub(super) file: String,
    /// 0 where it is not known.
    pub(super) line: u32,
}

/// What was looked up by now.
#[derive(Debug, Default)]
pub(super) struct Symbols(HashMap<usize, Vec<Symbol>>);

impl Symbols {
    /// The functions at a return address, the innermost first; at least one.
    pub(super) fn of(&mut self, address: usize) -> &[Symbol] {
        self.0.entry(address).or_insert_with(|| look_up(address))
    }

    /// The functions of a stack from the outermost to the innermost, as flame graphs fold them:
    /// `outer;inner`.
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
    // A call lies in front of the address that it returns to, which may be another line already.
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

/// A function's name, behind its file where it has none of its own: the debug information that we
/// build with knows of what was inlined just `{async_fn#0}` or `{closure#1}`.
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
    fn what_has_no_name_of_its_own_is_told_by_its_file() {
        for (name, file, told) in [
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
            assert_eq!(placed(name.to_owned(), file), told);
        }
    }
}
