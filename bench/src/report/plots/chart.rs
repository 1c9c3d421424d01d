//! Charts of lines: latency over quantiles, growth over counts.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::scale::Scale;
use super::{Area, GRID, INK, SOFT, WIDTH, draw, figure, peer_colour, plot_error, words};
use crate::load::latency::QUANTILES;
use crate::report::summary::Row;
use crate::stats::count;

#[derive(Debug, Clone)]
pub(crate) struct Line<'a> {
    pub(crate) peer: &'a str,
    /// Points from left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Latency over quantiles, one line a peer; quantiles stand evenly, latencies on a log scale.
pub(crate) fn latency(rows: &[&Row<'_>]) -> Result<String> {
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            let point = |(x, q): (usize, f64)| Some((count(x), row.latency(q)?));
            let points = QUANTILES
                .into_iter()
                .enumerate()
                .filter_map(point)
                .collect();
            Line {
                peer: row.peer,
                points,
            }
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let names = ["50 %", "75 %", "90 %", "99 %", "99.9 %", "99.99 %", "max"];
    Chart::new(&lines, Axis::Names(&names), true).draw("latency, µs")
}

/// How something grows with a count, on a log scale.
pub(crate) fn growth(lines: &[Line<'_>], along: &str, up: &str) -> Result<String> {
    Chart::new(lines, Axis::Counts(along), false).draw(up)
}

/// How something goes along something else that is even, such as time; without a mark at each point.
pub(crate) fn course(lines: &[Line<'_>], along: &str, up: &str, log: bool) -> Result<String> {
    Chart::new(lines, Axis::Even(along), log).draw(up)
}

#[derive(Debug, Clone, Copy)]
enum Axis<'a> {
    Names(&'a [&'a str]),
    /// Counts on a log scale, and what they count.
    Counts(&'a str),
    /// Numbers from zero on an even scale, and what they are.
    Even(&'a str),
}

impl Axis<'_> {
    fn across(self, x: f64) -> f64 {
        match self {
            Self::Names(_) | Self::Even(_) => x,
            Self::Counts(_) => x.max(1.0).log10(),
        }
    }

    fn name(self, number: usize, x: f64) -> String {
        match self {
            Self::Names(names) => names.get(number).copied().unwrap_or_default().to_owned(),
            Self::Counts(_) | Self::Even(_) => format!("{x:.0}"),
        }
    }
}

struct Chart<'a> {
    lines: &'a [Line<'a>],
    axis: Axis<'a>,
    /// Where there are points, from left to right.
    stops: Vec<f64>,
    scale: Scale,
}

impl<'a> Chart<'a> {
    fn new(lines: &'a [Line<'a>], axis: Axis<'a>, log: bool) -> Self {
        let points = || lines.iter().flat_map(|line| &line.points);
        let mut stops: Vec<f64> = points().map(|point| point.0).collect();
        if let Axis::Even(_) = axis {
            stops = Scale::of(stops.into_iter(), false).ticks();
        }
        stops.sort_by(f64::total_cmp);
        stops.dedup();
        Self {
            lines,
            axis,
            stops,
            scale: Scale::of(points().map(|point| point.1), log),
        }
    }

    fn draw(&self, up: &str) -> Result<String> {
        draw(HEIGHT, |area| {
            words(area, up, (LEFT, TOP - 20), HPos::Left, SOFT, 13)?;
            self.draw_axes(area)?;
            (0..)
                .zip(self.lines)
                .try_for_each(|(number, line)| self.draw_line(area, number, line))
        })
    }

    fn draw_axes(&self, area: &Area<'_>) -> Result<()> {
        let first = self.stops.first().copied().unwrap_or(0.0);
        for tick in self.scale.ticks() {
            let (_, y) = self.place(first, tick);
            let line = PathElement::new(vec![(LEFT, y), (RIGHT, y)], GRID.stroke_width(1));
            area.draw(&line).map_err(plot_error)?;
            words(area, &figure(tick), (LEFT - 10, y), HPos::Right, SOFT, 13)?;
        }
        for (number, stop) in self.stops.iter().enumerate() {
            let (x, _) = self.place(*stop, self.scale.low);
            let name = self.axis.name(number, *stop);
            words(area, &name, (x, BOTTOM + 18), HPos::Center, SOFT, 13)?;
        }
        if let Axis::Counts(along) | Axis::Even(along) = self.axis {
            let middle = i32::midpoint(LEFT, RIGHT);
            words(area, along, (middle, BOTTOM + 40), HPos::Center, SOFT, 13)?;
        }
        Ok(())
    }

    fn draw_line(&self, area: &Area<'_>, number: i32, line: &Line<'_>) -> Result<()> {
        let colour = peer_colour(line.peer);
        let stroke = colour.stroke_width(if line.peer.starts_with("gateway") {
            3
        } else {
            2
        });
        let points: Vec<_> = line
            .points
            .iter()
            .map(|(x, y)| self.place(*x, *y))
            .collect();
        let has_marks = !matches!(self.axis, Axis::Even(_));
        for point in points.iter().filter(|_| has_marks) {
            area.draw(&Circle::new(*point, 3, colour.filled()))
                .map_err(plot_error)?;
        }
        area.draw(&PathElement::new(points, stroke))
            .map_err(plot_error)?;
        let y = TOP + 6 + number * 22;
        let key = vec![(RIGHT + 24, y), (RIGHT + 46, y)];
        area.draw(&PathElement::new(key, stroke))
            .map_err(plot_error)?;
        words(area, line.peer, (RIGHT + 54, y), HPos::Left, INK, 13)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most the size of the picture"
    )]
    fn place(&self, x: f64, y: f64) -> (i32, i32) {
        let left = self.stops.first().map_or(0.0, |x| self.axis.across(*x));
        let right = self.stops.last().map_or(0.0, |x| self.axis.across(*x));
        let share = (self.axis.across(x) - left) / (right - left).max(f64::MIN_POSITIVE);
        let x = f64::from(LEFT) + share * f64::from(RIGHT - LEFT);
        let y = f64::from(BOTTOM) - self.scale.share(y) * f64::from(BOTTOM - TOP);
        (x as i32, y as i32)
    }
}

const HEIGHT: u32 = 400;
const LEFT: i32 = 70;
const RIGHT: i32 = WIDTH.cast_signed() - 200;
const TOP: i32 = 40;
const BOTTOM: i32 = 345;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_point_is_no_division_by_zero() {
        let line = Line {
            peer: "nginx",
            points: vec![(1.0, 5.0)],
        };
        let svg = growth(&[line], "routes", "µs").expect("draws");
        assert!(svg.starts_with("<svg") && !svg.contains("NaN"));
    }
}
