// The charts of a query's history, by uPlot. The table below them has the same numbers.
"use strict";

(() => {
  const place = document.getElementById("trend");
  const columns = JSON.parse(place.dataset.columns);
  const height = 120;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const stamp = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");

  function scaled(value, steps, digits) {
    let number = value, unit = 0;
    while (unit + 1 < steps.length && Math.abs(number) >= steps[unit + 1][0]) unit += 1;
    number /= steps[unit][0];
    return `${Number(number.toFixed(digits))} ${steps[unit][1]}`.trim();
  }

  const UNITS = {
    number: (value) => scaled(value, [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"]], 1),
    bytes: (value) => scaled(value, [[1, "B"], [1e3, "kB"], [1e6, "MB"], [1e9, "GB"], [1e12, "TB"]], 1),
    seconds: (value) => scaled(value, [[1, "s"], [60, "min"], [3600, "h"], [86400, "d"]], 1),
  };

  // Along the lower edge: the runs that found damage, or could not look.
  function marks(chart) {
    const { ctx, bbox } = chart;
    ctx.fillStyle = colour("--bad");
    columns.bad.forEach((bad, run) => {
      if (!bad) return;
      const x = chart.valToPos(columns.time[run], "x", true);
      if (x >= bbox.left && x <= bbox.left + bbox.width) ctx.fillRect(x - 1, bbox.top + bbox.height - 4, 3, 4);
    });
  }

  function draw(figure) {
    const { unit, names, titles } = figure.dataset;
    const shown = UNITS[unit], drawn = names.split(" "), labels = titles.split("|");
    const axis = { stroke: () => colour("--quiet"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false } };
    const strokes = drawn.length > 1 ? ["--bad", "--warn"] : ["--link"];
    return new uPlot({
      width: figure.clientWidth,
      height,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      cursor: { sync: { key: "trend" }, drag: { x: true, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
      axes: [
        { ...axis, size: 28, values: (_, splits, __, ___, step) => splits.map((at) => stamp(at).slice(...step < 86400 ? [11] : [5, 10])) },
        { ...axis, size: 60, values: (_, splits) => splits.map(shown) },
      ],
      series: [
        { label: "UTC", value: (_, seconds) => (seconds == null ? "" : stamp(seconds)) },
        ...drawn.map((_, number) => ({
          label: labels[number],
          stroke: () => colour(strokes[number]),
          width: 1.5,
          dash: number ? [4, 3] : [],
          value: (__, value, ___, run) => (run == null ? "" : value == null ? "?" : shown(value)),
        })),
      ],
      hooks: { draw: [marks] },
    }, [columns.time, ...drawn.map((name) => columns[name])], figure.querySelector(".chart"));
  }

  const charts = new Map([...place.querySelectorAll("figure")].map((figure) => [figure, draw(figure)]));
  new ResizeObserver(() => {
    charts.forEach((chart, figure) => chart.setSize({ width: figure.clientWidth, height }));
  }).observe(place);
  // The colours of the page change with Airflow's.
  new MutationObserver(() => charts.forEach((chart) => chart.redraw(false)))
    .observe(document.documentElement, { attributeFilter: ["class", "style"] });
})();
