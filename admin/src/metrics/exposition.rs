//! The text formats of metrics. A scrape of thousands of routes has some hundred thousand lines, so
//! labels are formatted once and copied.

use std::fmt::Write as _;

/// The text formats that scrapers negotiate with `Accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// `OpenMetrics` 1.0, which ends with `# EOF`.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

impl Format {
    /// The format that an `Accept` header prefers.
    #[must_use]
    pub fn negotiate(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Value of `Content-Type`, with the version of the format.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A writer of metrics, one family after the other.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    text: String,
}

impl Exposition {
    /// Starts a response in this format.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            format,
            text: String::new(),
        }
    }

    /// Starts a counter; `name` is given without `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        let announced = match self.format {
            Format::OpenMetrics => "",
            Format::Prometheus => "_total",
        };
        self.announce(name, announced, "counter", help);
        self.family(name, "_total")
    }

    /// Starts a family of gauges.
    pub fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.announce(name, "", "gauge", help);
        self.family(name, "")
    }

    /// Starts a family of histograms.
    pub fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.announce(name, "", "histogram", help);
        self.family(name, "")
    }

    fn announce(&mut self, name: &str, suffix: &str, kind: &str, help: &str) {
        // Writing to a string is infallible.
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

    /// Adds the end marker, if the format has one, and returns the text.
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Prefix of all metric names.
const PREFIX: &str = "gateway_";

/// A metric family, to which series are added.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    suffix: &'static str,
}

impl Family<'_> {
    /// Adds a sample with an integer value.
    pub fn number(&mut self, labels: &Labels, value: u64) {
        self.begin(self.suffix, labels, None);
        let _ = writeln!(self.text, "{value}");
    }

    /// Adds a sample with a fractional value.
    pub fn fraction(&mut self, labels: &Labels, value: f64) {
        self.begin(self.suffix, labels, None);
        let _ = writeln!(self.text, "{value}");
    }

    /// Adds the samples of a histogram. `bounds` are upper bounds in seconds, as text; `counts` are the
    /// counts of the buckets, not cumulative, with one more for values above the last bound.
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

/// Label pairs in exposition format, escaped.
#[derive(Debug, Clone, Default)]
pub struct Labels(String);

impl Labels {
    /// No labels: the metric has a single series.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A copy with one more label.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut labels = self.clone();
        labels.push(name, value);
        labels
    }

    /// Appends a label; the value is escaped.
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
    use super::{Exposition, Format, Labels};

    fn sample(format: Format) -> String {
        let mut all = Exposition::new(format);
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
    fn the_prometheus_format_is_valid() {
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
        assert_eq!(sample(Format::Prometheus), expected);
    }

    #[test]
    fn openmetrics_names_counters_without_total_and_marks_the_end() {
        let text = sample(Format::OpenMetrics);
        assert!(text.contains("# TYPE gateway_requests counter\n"), "{text}");
        assert!(text.contains("gateway_requests_total{"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn the_format_follows_the_accept_header() {
        let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Format::negotiate(accept), Format::OpenMetrics);
        assert_eq!(Format::negotiate("*/*"), Format::Prometheus);
    }
}
