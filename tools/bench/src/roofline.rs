//! Draws a roofline (Williams, Waterman and Patterson, 2009): operations per second over operations
//! per byte moved.
//!
//! Rooflines are measured in the same process: a kernel of multiplications and additions only, and
//! copies of as many bytes as each group moves; the slowest copy comes from memory, the fastest
//! from the caches.

use std::fmt::Write;

/// The data of the plot.
#[derive(Default)]
pub struct Roofline {
    points: Vec<Point>,
    /// Operations per second of the peak kernel.
    pub most: f64,
}

struct Point {
    name: String,
    /// Operations per byte.
    intensity: f64,
    /// Operations per second.
    speed: f64,
    /// Bytes per second of a copy of as many bytes.
    copy: f64,
}

/// Groups with fewer bytes measure call overhead, so they are omitted.
const LEAST: usize = 64 << 10;
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 620.0;
const MARGIN: f64 = 60.0;

/// A logarithmic axis between two powers of two.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that covers some numbers.
    fn of(numbers: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            let x = x.log2();
            (low.min(x), high.max(x))
        });
        Axis { low: low.floor(), high: high.ceil().max(low.floor() + 1.0), from, to }
    }

    fn at(&self, x: f64) -> f64 {
        self.from + (x.log2() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|power| 2f64.powi(power))
    }
}

impl Roofline {
    /// Adds a group: its operations and bytes, its time in seconds, and the bytes per second of a
    /// copy.
    pub fn add(&mut self, name: &str, operations: usize, bytes: usize, seconds: f64, copy: f64) {
        if bytes < LEAST {
            return;
        }
        let operations = operations as f64;
        let point = Point {
            name: name.to_owned(),
            intensity: operations / bytes.max(1) as f64,
            speed: operations / seconds,
            copy,
        };
        self.points.push(point);
    }

    /// The plot as SVG.
    pub fn svg(&self) -> String {
        let xs = self.points.iter().map(|point| point.intensity);
        let x = Axis::of(xs.chain([self.most / self.fastest(), 0.25]), MARGIN, WIDTH - MARGIN / 2.0);
        let ys = self.points.iter().map(|point| point.speed);
        let y = Axis::of(ys.chain([self.most]), HEIGHT - MARGIN, MARGIN / 2.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        self.axes(&mut svg, &x, &y);
        self.roof(&mut svg, (&x, &y), self.slowest(), "#c04040", "memory");
        self.roof(&mut svg, (&x, &y), self.fastest(), "#d09030", "caches");
        self.dots(&mut svg, &x, &y);
        svg += "</svg>\n";
        svg
    }

    fn slowest(&self) -> f64 {
        self.points.iter().map(|point| point.copy).fold(f64::INFINITY, f64::min)
    }

    fn fastest(&self) -> f64 {
        self.points.iter().map(|point| point.copy).fold(0.0, f64::max)
    }

    fn axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        for tick in x.ticks() {
            let at = x.at(tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#eee\"/>",
                y.from, y.to
            );
            let _ =
                writeln!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>", y.from + 16.0);
        }
        for tick in y.ticks() {
            let at = y.at(tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#eee\"/>",
                x.from, x.to
            );
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.2}</text>",
                x.from - 6.0,
                at + 4.0,
                tick / 1e9
            );
        }
        let middle = f64::midpoint(x.from, x.to);
        let _ = writeln!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operations for a byte</text>",
            HEIGHT - 14.0
        );
        let _ = writeln!(svg, "<text x=\"8\" y=\"16\">1e9 operations a second</text>");
    }

    /// The roofline for memory of this bandwidth, up to the peak of the processor.
    fn roof(&self, svg: &mut String, (x, y): (&Axis, &Axis), rate: f64, colour: &str, name: &str) {
        let first = 2f64.powf(x.low).max(2f64.powf(y.low) / rate);
        let (knee, last) = (self.most / rate, 2f64.powf(x.high));
        let points = [(first, first * rate), (knee, self.most), (last.max(knee), self.most)];
        let points: Vec<String> = points.iter().map(|(a, b)| format!("{:.1},{:.1}", x.at(*a), y.at(*b))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            points.join(" ")
        );
        let at = (first * knee).sqrt();
        let (left, above) = (x.at(at), y.at(at * rate) - 8.0);
        let _ = writeln!(
            svg,
            "<text x=\"{left:.1}\" y=\"{above:.1}\" fill=\"{colour}\" text-anchor=\"end\">{name}, {:.1} GB/s</text>",
            rate / 1e9
        );
    }

    /// The groups, each with its name next to it, or as near as there is space.
    fn dots(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let mut taken: Vec<[f64; 4]> = Vec::new();
        let at = |point: &Point| (x.at(point.intensity), y.at(point.speed));
        taken.extend(self.points.iter().map(at).map(|(left, top)| [left - 4.0, top - 4.0, left + 4.0, top + 4.0]));
        for point in &self.points {
            let (left, top) = at(point);
            let label = room(&mut taken, (left, top), width(&point.name));
            let share = point.speed / (point.intensity * point.copy).min(self.most);
            let _ = writeln!(
                svg,
                "<line x1=\"{left:.1}\" y1=\"{top:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#9bd\"/>\n\
                 <circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"4\" fill=\"#3060b0\"><title>{name}: {share:.2} of its roof</title></circle>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                if label.0 < left { label.0 + width(&point.name) } else { label.0 },
                label.1 - 4.0,
                label.0,
                label.1,
                name = point.name,
            );
        }
    }
}

/// The approximate width of a name.
fn width(name: &str) -> f64 {
    name.len() as f64 * 6.2
}

/// Finds space for a label near a point, and reserves it.
fn room(taken: &mut Vec<[f64; 4]>, (left, top): (f64, f64), width: f64) -> (f64, f64) {
    let places = (0..60).flat_map(|i| {
        let away = f64::from(i / 2 + i % 2) * if i % 2 == 0 { 11.0 } else { -11.0 };
        [(left + 8.0, top + 4.0 + away), (left - 8.0 - width, top + 4.0 + away)]
    });
    let mut places = places.filter(|(x, _)| *x > MARGIN && x + width < WIDTH);
    let meets = |(x, y): &(f64, f64), other: &[f64; 4]| {
        *x < other[2] && x + width > other[0] && y - 10.0 < other[3] && *y > other[1]
    };
    let (x, y) = places.find(|place| !taken.iter().any(|other| meets(place, other))).unwrap_or((left + 8.0, top + 4.0));
    taken.push([x, y - 10.0, x + width, y]);
    (x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lies_where_its_figures_say() {
        let mut roofline = Roofline { most: 64e9, ..Roofline::default() };
        // One operation per byte at 8e9 per second, half of what a copy at 16e9 bytes per second
        // allows.
        roofline.add("a", 8_000_000, 8_000_000, 1e-3, 16e9);
        roofline.add("b", 64_000_000, 8_000_000, 2e-3, 16e9);
        let svg = roofline.svg();
        assert!(svg.contains("a: 0.50 of its roof") && svg.contains("b: 0.50 of its roof"), "{svg}");
        let axis = Axis::of([0.25, 4.0].into_iter(), 0.0, 100.0);
        assert_eq!([0.25, 1.0, 4.0].map(|x| axis.at(x)), [0.0, 50.0, 100.0]);
    }
}
