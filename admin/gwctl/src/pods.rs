//! Output of one gateway, or of each of its pods under a heading.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use crate::args::Output;
use crate::output;
use crate::table::Table;

/// Writes responses. Those of several pods have headings in tables, and are maps by pod in JSON and
/// YAML.
///
/// # Errors
/// Writing failed.
pub(crate) fn write<T: Serialize, const COLUMNS: usize>(
    rows: &[(Option<String>, T)],
    table: impl Fn(&T) -> Table<COLUMNS>,
    format: Output,
    out: &mut dyn Write,
) -> Result<()> {
    match (format, rows) {
        (Output::Table, rows) => {
            for (index, (pod, dump)) in rows.iter().enumerate() {
                if let Some(pod) = pod {
                    let gap = if index > 0 { "\n" } else { "" };
                    writeln!(out, "{gap}pod {pod}")?;
                }
                table(dump).write(out)?;
            }
            Ok(())
        }
        (Output::Yaml, [(None, dump)]) => output::yaml(dump, out),
        (Output::Json, [(None, dump)]) => output::json(dump, out),
        (Output::Yaml, rows) => output::yaml(&by_pod(rows), out),
        (Output::Json, rows) => output::json(&by_pod(rows), out),
    }
}

fn by_pod<T>(rows: &[(Option<String>, T)]) -> BTreeMap<&str, &T> {
    let named = rows
        .iter()
        .filter_map(|(pod, it)| Some((pod.as_deref()?, it)));
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::args::Output;
    use crate::table::Table;

    #[test]
    fn responses_of_several_pods_are_labelled_by_pod() {
        let rows = [(Some("a".to_owned()), 1), (Some("b".to_owned()), 2)];
        let table = |number: &i32| {
            let mut table = Table::new(["N"]);
            table.row([number.to_string()]);
            table
        };
        let written = |format| {
            let mut text = Vec::new();
            write(&rows, table, format, &mut text).expect("memory");
            String::from_utf8(text).expect("text")
        };
        assert_eq!(written(Output::Table), "pod a\nN\n1\n\npod b\nN\n2\n");
        assert_eq!(written(Output::Yaml), "a: 1\nb: 2\n");
        assert_eq!(written(Output::Json), "{\n  \"a\": 1,\n  \"b\": 2\n}\n");
    }
}
