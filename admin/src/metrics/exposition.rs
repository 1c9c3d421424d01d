//! The text form of metrics, written as it is counted: a scrape of thousands of routes is some
//! hundred thousand lines, so labels are written out once and copied.

use std::fmt::Write as _;

/// The two text forms in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4.
    Prometheus,
}

impl Form {
    /// The form that an `Accept` header asks for.
    #[must_use]
    pub fn asked(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Its media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Metrics as text, family by family.
#[derive(Debug)]
pub struct Exposition {
    form: Form,
    text: String,
}

impl Exposition {
    /// No metrics yet.
    #[must_use]
    pub fn new(form: Form) -> Self {
        Self {
            form,
            text: String::new(),
        }
    }

    /// Begins a family of numbers that grow. `name` goes without `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        let announced = match self.form {
            Form::OpenMetrics => "",
            Form::Prometheus => "_total",
        };
        self.announce(name, announced, "counter", help);
        self.family(name, "_total")
    }

    /// Begins a family of numbers that go up and down.
    pub fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.announce(name, "", "gauge", help);
        self.family(name, "")
    }

    /// Begins a family of distributions.
    pub fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.announce(name, "", "histogram", help);
        self.family(name, "")
    }

    fn announce(&mut self, name: &str, suffix: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {PREFIX}{name}{suffix} {help}");
        let _ = writeln!(self.text, "# TYPE {PREFIX}{name}{suffix} {kind}");
    }

    fn family(&mut self, name: &'static str, suffix: &'static str) -> Family<'_> {
        Family {
            text: &mut self.text,
            name,
            suffix,
        }
    }

    /// All of it.
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// What every name begins with.
const PREFIX: &str = "gateway_";

/// The samples of one name.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    suffix: &'static str,
}

impl Family<'_> {
    /// Adds a whole number.
    pub fn number(&mut self, labels: &Labels, value: u64) {
        self.begin(self.suffix, labels, None);
        let _ = writeln!(self.text, "{value}");
    }

    /// Adds a fraction.
    pub fn fraction(&mut self, labels: &Labels, value: f64) {
        self.begin(self.suffix, labels, None);
        let _ = writeln!(self.text, "{value}");
    }

    /// Adds a distribution: for each upper bound in seconds, as text, how many fell into its bucket
    /// alone; the last count is for what is above every bound.
    pub fn distribution(
        &mut self,
        labels: &Labels,
        bounds: &[&str],
        counts: &[u64],
        sum_seconds: f64,
    ) {
        let mut total = 0_u64;
        let bounds = bounds.iter().copied().chain(["+Inf"]);
        for (bound, count) in bounds.zip(counts) {
            total = total.wrapping_add(*count);
            self.begin("_bucket", labels, Some(bound));
            let _ = writeln!(self.text, "{total}");
        }
        self.begin("_count", labels, None);
        let _ = writeln!(self.text, "{total}");
        self.begin("_sum", labels, None);
        let _ = writeln!(self.text, "{sum_seconds}");
    }

    fn begin(&mut self, suffix: &str, labels: &Labels, bound: Option<&str>) {
        let text = &mut *self.text;
        for part in [PREFIX, self.name, suffix] {
            text.push_str(part);
        }
        if !labels.0.is_empty() || bound.is_some() {
            text.push('{');
            text.push_str(&labels.0);
            if let Some(bound) = bound {
                text.push_str(if labels.0.is_empty() {
                    "le=\""
                } else {
                    ",le=\""
                });
                text.push_str(bound);
                text.push('"');
            }
            text.push('}');
        }
        text.push(' ');
    }
}

/// Labels, written out.
#[derive(Debug, Clone, Default)]
pub struct Labels(String);

impl Labels {
    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// These, and one more.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut labels = self.clone();
        labels.push(name, value);
        labels
    }

    /// Adds one.
    pub fn push(&mut self, name: &str, value: &str) {
        let text = &mut self.0;
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                _ => text.push(character),
            }
        }
        text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::{Exposition, Form, Labels};

    fn sample(form: Form) -> String {
        let mut all = Exposition::new(form);
        let labels = Labels::none().with("route", "a\"b\\c\n");
        let mut requests = all.counter("requests", "Requests.");
        requests.number(&labels, 7);
        requests.number(&labels.with("code", "200"), 0);
        all.gauge("health", "Health.")
            .fraction(&Labels::none(), 0.25);
        let mut duration = all.histogram("duration_seconds", "Duration.");
        duration.distribution(&Labels::none(), &["0.5", "1"], &[1, 2, 3], 9.5);
        all.finish()
    }

    #[test]
    fn prometheus_reads_it() {
        let expected = r#"# HELP gateway_requests_total Requests.
# TYPE gateway_requests_total counter
gateway_requests_total{route="a\"b\\c\n"} 7
gateway_requests_total{route="a\"b\\c\n",code="200"} 0
# HELP gateway_health Health.
# TYPE gateway_health gauge
gateway_health 0.25
# HELP gateway_duration_seconds Duration.
# TYPE gateway_duration_seconds histogram
gateway_duration_seconds_bucket{le="0.5"} 1
gateway_duration_seconds_bucket{le="1"} 3
gateway_duration_seconds_bucket{le="+Inf"} 6
gateway_duration_seconds_count 6
gateway_duration_seconds_sum 9.5
"#;
        assert_eq!(sample(Form::Prometheus), expected);
    }

    #[test]
    fn openmetrics_names_counters_without_total_and_says_where_it_ends() {
        let text = sample(Form::OpenMetrics);
        assert!(text.contains("# TYPE gateway_requests counter\n"), "{text}");
        assert!(text.contains("gateway_requests_total{"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn the_form_is_what_accept_says() {
        let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Form::asked(accept), Form::OpenMetrics);
        assert_eq!(Form::asked("*/*"), Form::Prometheus);
    }
}
