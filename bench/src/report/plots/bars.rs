//! Bars of one case.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, INK, SOFT, WIDTH, draw, figure, plot_error, role_colour, words};
use crate::peers::Role;
use crate::stats::Spread;

#[derive(Debug, Clone)]
pub(crate) struct Bar<'a> {
    pub(crate) peer: &'a str,
    /// Whether it is the gateway or a peer.
    pub(crate) role: Role,
    /// How long, with the extremes as a whisker.
    pub(crate) spread: Spread,
}

/// Horizontal bars, the shortest on top; the dashed line is the floor.
pub(crate) fn bars(mut bars: Vec<Bar<'_>>, unit: &str, floor: Option<f64>) -> Result<String> {
    bars.sort_by(|a, b| a.spread.median.total_cmp(&b.spread.median));
    let height = BAR * u32::try_from(bars.len())? + BAR_FOOT;
    let longest = bars
        .iter()
        .map(|bar| bar.spread.max)
        .fold(f64::MIN_POSITIVE, f64::max);
    draw(height, |area| {
        let scale = f64::from(WIDTH - BAR_LEFT - BAR_RIGHT) / longest;
        // Lengths are within the picture by the choice of the scale.
        #[expect(clippy::cast_possible_truncation, reason = "at most WIDTH")]
        let x = |value: f64| BAR_LEFT.cast_signed() + (value.max(0.0) * scale) as i32;
        for (number, bar) in (0..).zip(&bars) {
            let middle = number * BAR.cast_signed() + BAR.cast_signed() / 2;
            one_bar(area, bar, middle, &x)?;
        }
        let foot = BAR.cast_signed() * i32::try_from(bars.len())?;
        if let Some(floor) = floor {
            let style = INK.mix(0.55).stroke_width(1);
            for top in (4..foot).step_by(9) {
                let dash = vec![(x(floor), top), (x(floor), (top + 5).min(foot))];
                area.draw(&PathElement::new(dash, style))
                    .map_err(plot_error)?;
            }
        }
        let note = if floor.is_some() {
            format!("{unit}; dashed: the floor")
        } else {
            unit.into()
        };
        words(area, &note, (x(0.0), foot + 16), HPos::Left, SOFT, 13)
    })
}

fn one_bar(area: &Area<'_>, bar: &Bar<'_>, middle: i32, x: &impl Fn(f64) -> i32) -> Result<()> {
    let half = BAR.cast_signed() / 2 - 5;
    let Spread {
        median, min, max, ..
    } = bar.spread;
    let body = [(x(0.0), middle - half), (x(median), middle + half)];
    area.draw(&Rectangle::new(body, role_colour(bar.role).filled()))
        .map_err(plot_error)?;
    let whisker = INK.mix(0.7).stroke_width(1);
    for line in [
        vec![(x(min), middle), (x(max), middle)],
        vec![(x(min), middle - 4), (x(min), middle + 4)],
        vec![(x(max), middle - 4), (x(max), middle + 4)],
    ] {
        area.draw(&PathElement::new(line, whisker))
            .map_err(plot_error)?;
    }
    words(area, bar.peer, (x(0.0) - 10, middle), HPos::Right, INK, 14)?;
    let end = WIDTH.cast_signed() - 14;
    words(area, &figure(median), (end, middle), HPos::Right, INK, 14)
}

const BAR: u32 = 28;
const BAR_LEFT: u32 = 160;
const BAR_RIGHT: u32 = 90;
const BAR_FOOT: u32 = 34;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_named() {
        let spread = Spread {
            median: 10.0,
            min: 9.0,
            max: 12.0,
            count: 3,
        };
        let bar = |peer| Bar {
            peer,
            role: Role::Peer,
            spread,
        };
        let svg = bars(vec![bar("nginx"), bar("haproxy")], "µs", Some(9.0)).expect("draws");
        assert!(svg.contains("nginx") && svg.contains("haproxy") && !svg.contains("NaN"));
    }
}
