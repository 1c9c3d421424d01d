//! How many rules a configuration has, and how often they are attached: counted as they change, since there may
//! be tens of thousands.

use xds::model::{Model, Resource, Route};

use crate::config::RuleCounts;

impl RuleCounts {
    /// Counts a change of a resource, in a model that does not have it yet.
    pub(super) fn replace(
        &mut self,
        old: Option<&Resource>,
        new: Option<&Resource>,
        model: &Model,
    ) {
        let route = |resource: Option<&Resource>| match resource {
            Some(Resource::Route(route)) => Some(route.clone()),
            _ => None,
        };
        let (old, new) = (route(old), route(new));
        self.attachments += new.as_ref().map_or(0, |it| it.attachments.len());
        self.attachments -= old.as_ref().map_or(0, |it| it.attachments.len());
        match (old, new) {
            (None, Some(new)) if !is_elsewhere(&new, model) => self.rules += 1,
            (Some(old), None) if !is_elsewhere(&old, model) => self.rules -= 1,
            _ => {}
        }
    }
}

/// Whether the rule is in another resource too: that of another Gateway, or of another listener if the
/// controller sends a rule for each.
fn is_elsewhere(route: &Route, model: &Model) -> bool {
    let rule = format!("{}/", route.key.rule());
    let same = model.routes.starting_at(&rule);
    let mut same = same.take_while(|it| it.key.as_str().starts_with(&rule));
    same.any(|it| it.key != route.key)
}
