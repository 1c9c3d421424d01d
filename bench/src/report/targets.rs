//! The performance targets of the gateway, and whether they are met. Pure.

use super::summary::{CaseSummary, Row};
use crate::peers::Role;
use crate::scenario::{Metric, Target};
use crate::stats::Ratio;

/// Whether a target is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// Undecided: fewer than ten pairs and within 10 %, or the bound lies within the interval.
    Open,
}

impl Verdict {
    /// A ratio against its bound. Fewer than ten pairs decide nothing finer than 10 %.
    pub(crate) fn of(ratio: &Ratio, factor: f64) -> Self {
        let (low, high) = ratio
            .interval
            .unwrap_or((ratio.value / 1.1, ratio.value * 1.1));
        if high <= factor {
            Self::Met
        } else if low > factor {
            Self::Missed
        } else {
            Self::Open
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Open => "too close to call",
        }
    }
}

/// The result of one target for one driver of the gateway.
#[derive(Debug)]
pub(crate) struct TargetResult {
    /// Name of the case.
    pub(crate) case: String,
    pub(crate) wanted: String,
    /// The gateway's peer name.
    pub(crate) gateway: String,
    /// The measured ratio and verdict; none if a side was not measured.
    pub(crate) reached: Option<(Ratio, Verdict)>,
}

/// Evaluates every target of every case for every gateway that was measured. Targets of cases
/// without a gateway run are listed once, as not measured.
pub(crate) fn evaluate(summaries: &[CaseSummary<'_>]) -> Vec<TargetResult> {
    let mut list = Vec::new();
    for summary in summaries {
        for target in &summary.case.targets {
            let to_itself = |row: &Row<'_>| target.against.as_deref() == Some(row.peer);
            let gateways = summary.rows.iter().filter(|row| row.role == Role::Gateway);
            let ours: Vec<_> = gateways.filter(|row| !to_itself(row)).collect();
            let case = summary.case.name();
            if ours.is_empty() {
                let (wanted, gateway) = (wording(target, None), "gateway".to_owned());
                list.push(TargetResult {
                    case,
                    wanted,
                    gateway,
                    reached: None,
                });
                continue;
            }
            for row in ours {
                list.push(evaluate_one(summaries, summary, target, row));
            }
        }
    }
    list
}

fn evaluate_one(
    summaries: &[CaseSummary<'_>],
    summary: &CaseSummary<'_>,
    target: &Target,
    ours: &Row<'_>,
) -> TargetResult {
    let theirs = other_side(summaries, summary, target, ours);
    let ratio = match (&target.against, theirs) {
        _ if !ours.is_good() => None,
        // A request lost in one run is lost, however good the others are.
        (None, _) if target.metric == Metric::Lost => ours.spread(target.metric).map(worst),
        (None, _) => ours.spread(target.metric).map(absolute),
        (Some(_), Some((row, true))) => ours.ratio(row, target.metric),
        (Some(_), Some((row, false))) => unpaired(ours, row, target.metric),
        (Some(_), None) => None,
    };
    TargetResult {
        case: summary.case.name(),
        wanted: wording(target, theirs.map(|(row, _)| row.peer)),
        gateway: ours.peer.to_owned(),
        reached: ratio.map(|ratio| (ratio, Verdict::of(&ratio, target.factor))),
    }
}

/// The row to compare with, and whether its rounds were interleaved with the gateway's.
fn other_side<'a>(
    summaries: &'a [CaseSummary<'a>],
    summary: &'a CaseSummary<'a>,
    target: &Target,
    ours: &Row<'_>,
) -> Option<(&'a Row<'a>, bool)> {
    let named = |name: &str| summaries.iter().find(|s| s.case.name() == name);
    let against = target.against.as_deref()?;
    if let Some(case) = against.strip_prefix("case:") {
        let other = named(case)?;
        return Some((other.row(ours.peer)?, other.case.id == summary.case.id));
    }
    if let Some(case) = against.strip_prefix("floor:") {
        let other = named(case)?;
        let row = other.best(Role::Floor, target.metric)?;
        return Some((row, other.case.id == summary.case.id));
    }
    let row = match against {
        "floor" => summary.best(Role::Floor, target.metric),
        "peers" => summary.best(Role::Peer, target.metric),
        peer => summary.row(peer),
    };
    Some((row?, true))
}

/// Medians of different cases: one pair, so no interval.
fn unpaired(ours: &Row<'_>, theirs: &Row<'_>, metric: Metric) -> Option<Ratio> {
    Ratio::of(&[(ours.spread(metric)?.median, theirs.spread(metric)?.median)])
}

fn absolute(spread: crate::stats::Spread) -> Ratio {
    Ratio {
        value: spread.median,
        interval: Some((spread.min, spread.max)),
        pairs: spread.count,
    }
}

fn worst(spread: crate::stats::Spread) -> Ratio {
    absolute(crate::stats::Spread {
        median: spread.max,
        min: spread.max,
        ..spread
    })
}

fn wording(target: &Target, found: Option<&str>) -> String {
    let what = match target.metric {
        Metric::Cpu => "CPU",
        Metric::Time => "time per request",
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        Metric::RssPerConnection => "memory per idle connection",
        Metric::Lost => "requests lost",
    };
    let unit = match target.metric {
        Metric::RssPerConnection => " bytes",
        _ => "",
    };
    let factor = target.factor;
    let found = found.map(|peer| format!(" ({peer})")).unwrap_or_default();
    match target.against.as_deref() {
        None => format!("{what} at most {factor}{unit}"),
        Some("floor") => format!("{what} at most {factor} × the floor{found}"),
        Some("peers") => format!("{what} at most {factor} × the best other proxy{found}"),
        Some(other) => match (other.strip_prefix("floor:"), other.strip_prefix("case:")) {
            (Some(case), _) => format!("{what} at most {factor} × the floor of {case}{found}"),
            (_, Some(case)) => format!("{what} at most {factor} × its own in {case}"),
            (None, None) => format!("{what} at most {factor} × {other}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64, interval: Option<(f64, f64)>) -> Ratio {
        Ratio {
            value,
            interval,
            pairs: 10,
        }
    }

    #[test]
    fn without_an_interval_verdicts_need_a_margin_of_ten_percent() {
        assert_eq!(Verdict::of(&ratio(0.95, None), 1.0), Verdict::Open);
        assert_eq!(Verdict::of(&ratio(0.90, None), 1.0), Verdict::Met);
        assert_eq!(Verdict::of(&ratio(1.05, None), 1.0), Verdict::Open);
        assert_eq!(Verdict::of(&ratio(1.20, None), 1.0), Verdict::Missed);
    }

    #[test]
    fn with_an_interval_verdicts_follow_its_bounds() {
        assert_eq!(
            Verdict::of(&ratio(0.98, Some((0.97, 0.99))), 1.0),
            Verdict::Met
        );
        assert_eq!(
            Verdict::of(&ratio(0.99, Some((0.97, 1.01))), 1.0),
            Verdict::Open
        );
        assert_eq!(
            Verdict::of(&ratio(1.02, Some((1.01, 1.03))), 1.0),
            Verdict::Missed
        );
    }

    #[test]
    fn a_driver_is_not_compared_with_itself() {
        let text = "id='T'\ntitle='t'\nwhy='w'\nfront='http1'\nload={with='wrk',connections=1}\n\
                    target=[{against='peers',factor=1.0},{against='gateway-io-uring',factor=1.1}]";
        let case = crate::scenario::parse(text).expect("case").remove(0);
        let measured = |cpu_us| crate::record::Measured {
            cpu_us,
            ..Default::default()
        };
        let (ours, slow, theirs) = (measured(10.0), measured(20.0), measured(12.0));
        let row = |peer, role, measured| Row {
            peer,
            role,
            runs: vec![(0, measured)],
            failure: None,
        };
        let rows = vec![
            row("gateway-io-uring", Role::Gateway, &ours),
            row("gateway-epoll", Role::Gateway, &slow),
            row("nginx", Role::Peer, &theirs),
        ];
        let judged = evaluate(&[CaseSummary {
            case: &case,
            rows,
            skipped: Vec::new(),
        }]);
        let verdicts: Vec<_> = judged
            .iter()
            .map(|one| {
                (
                    one.gateway.as_str(),
                    one.reached.map(|(_, verdict)| verdict),
                )
            })
            .collect();
        assert_eq!(
            verdicts,
            [
                ("gateway-io-uring", Some(Verdict::Met)),
                ("gateway-epoll", Some(Verdict::Missed)),
                ("gateway-epoll", Some(Verdict::Missed)),
            ]
        );
    }
}
