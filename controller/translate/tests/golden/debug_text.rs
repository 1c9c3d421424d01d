//! Debug text of any value, shortened for reading: `None`, empty and default values are omitted,
//! `Some(x)` is `x`, names of objects are short, and what fits is put on one line.

use std::fmt::Debug;

/// Renders a value, indented by `indent` spaces from its second line on.
pub(crate) fn of(value: &impl Debug, indent: usize) -> String {
    let pretty = format!("{value:#?}");
    let mut lines = pretty.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let root = Node::read(first, &mut lines).simplified();
    root.map_or_else(String::new, |root| root.text(indent))
}

struct Node {
    /// The whole text of a leaf; otherwise up to and with the opening bracket.
    label: String,
    children: Option<Vec<Node>>,
}

impl Node {
    fn read<'a>(line: &str, rest: &mut impl Iterator<Item = &'a str>) -> Self {
        let label = line.trim_end_matches(',').to_owned();
        if !label.ends_with(['{', '(', '[']) {
            return Self {
                label,
                children: None,
            };
        }
        let mut children = Vec::new();
        while let Some(line) = rest.next() {
            if line.starts_with(['}', ')', ']']) {
                break;
            }
            children.push(Self::read(line, rest));
        }
        Self {
            label,
            children: Some(children),
        }
    }

    fn simplified(self) -> Option<Self> {
        let Some(children) = self.children else {
            let (field, value) = self.label.split_once(": ").unwrap_or(("", &self.label));
            // Few policies are invalid, or require several credentials.
            let rare = ["is_invalid", "closes_connections", "require_all"].contains(&field);
            let nothing = rare && value == "false"
                || ["None", "[]", "Default", "Defaults", "{}"].contains(&value);
            return (field.is_empty() || !nothing).then_some(Self {
                children: None,
                ..self
            });
        };
        let mut children: Vec<Self> = children.into_iter().filter_map(Self::simplified).collect();
        if let Some(before) = self.label.strip_suffix("Some(")
            && let Some(only) = children.pop()
        {
            return Some(Self {
                label: before.to_owned() + &only.label,
                ..only
            });
        }
        if let Some(before) = self.label.strip_suffix("ObjectName {") {
            let parts = children.iter().map(|child| child.label.split('"').nth(1));
            let parts: Vec<&str> = parts.map(Option::unwrap_or_default).collect();
            return Some(Self {
                label: before.to_owned() + &parts.join("/"),
                children: None,
            });
        }
        if children.is_empty() && self.label.ends_with('{') && self.label.contains(": ") {
            return None;
        }
        Some(Self {
            children: Some(children),
            ..self
        })
    }

    fn text(&self, indent: usize) -> String {
        let Some(children) = &self.children else {
            return self.label.clone();
        };
        let close = match self.label.chars().last() {
            Some('{') => " }",
            Some('(') => ")",
            _ => "]",
        };
        let space = if close == " }" { " " } else { "" };
        let short: Vec<String> = children
            .iter()
            .map(|child| child.text(indent + 2))
            .collect();
        let line = format!("{}{space}{}{close}", self.label, short.join(", "));
        if line.len() + indent <= MAX_WIDTH && !line.contains('\n') {
            return line;
        }
        let margin = " ".repeat(indent + 2);
        let lines: Vec<String> = short
            .iter()
            .map(|child| format!("{margin}{child}"))
            .collect();
        format!(
            "{}\n{}\n{}{}",
            self.label,
            lines.join("\n"),
            " ".repeat(indent),
            close.trim()
        )
    }
}

/// Of a line of output.
const MAX_WIDTH: usize = 140;
