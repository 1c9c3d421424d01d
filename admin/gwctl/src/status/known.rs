//! What conditions say already.

use std::collections::BTreeMap;

use translate::diagnosis::Diagnosis;

/// What conditions say, so that no finding says it again: by route and policy, as there may be thousands.
pub(super) struct KnownProblems<'a> {
    of_parts: BTreeMap<String, Vec<&'a str>>,
    of_gateway: Vec<&'a str>,
}

impl<'a> KnownProblems<'a> {
    /// Of conditions in words, each of which begins with the title of its part if it is about one of these.
    pub(super) fn of(
        parts: impl Iterator<Item = String>,
        conditions: impl Iterator<Item = &'a str>,
    ) -> Self {
        let mut known = Self {
            of_parts: parts.map(|it| (it, Vec::new())).collect(),
            of_gateway: Vec::new(),
        };
        for text in conditions {
            let part = text.split_once(": ").map(|(part, _)| part);
            let of_part = part.and_then(|it| known.of_parts.get_mut(it));
            let list = of_part.unwrap_or(&mut known.of_gateway);
            list.push(text);
        }
        known
    }

    /// Whether a condition of its object, or of the Gateway, says it.
    pub(super) fn contains(&self, diagnosis: &Diagnosis) -> bool {
        let of_part = self.of_parts.get(&diagnosis.object.to_string());
        let texts = of_part.into_iter().flatten().chain(&self.of_gateway);
        let mut texts = texts.copied();
        texts.any(|it| it.contains(&diagnosis.text))
    }
}
