// Numbers and texts for people. The rules, by number, are those of src/registry/units.rs: both give
// the same text for the same value. The page has the table of units (UNITS) before this.

const SPELLINGS = new Map(UNITS.map((unit) => [unit.name, unit]));
const unspelt = (after) => ({digits: 4, steps: [], power: 0, after, cut: true});

/** A value with its unit; null is `n/a`. */
function human(value, unit) {
  if (value === null || value === undefined) return "n/a";
  if (typeof value === "boolean") return String(value);
  if (typeof value === "string") return plain(value);
  if (typeof value !== "number") return plain(JSON.stringify(value));
  if (!unit && Number.isInteger(value) && Math.abs(value) < 1e21) return String(value === 0 ? 0 : value);
  if (!Number.isFinite(value)) return "n/a";
  const known = unit ? SPELLINGS.get(unit) : unspelt("");
  return written(value, known || unspelt(" " + plain(unit)), Boolean(unit));
}

/** Text on one line, without what steers a terminal or turns the direction of the text. */
function plain(text) {
  return String(text)
    .replace(/[\t\n\r]/g, " ")
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, "");
}

/** The name of a unit, as a heading of a column has it. */
function unitName(unit) {
  const known = SPELLINGS.get(unit);
  if (!known) return unit ? plain(unit) : "";
  const own = known.steps.find(([power]) => power === known.power);
  return own ? own[1] + known.after : known.after.trim();
}

function written(x, {digits, steps, power, after, cut}, commas) {
  const own = steps.find(([p]) => p === power) || [0, ""];
  const gap = steps.length ? " " : "";
  if (x === 0) return "0" + gap + own[1] + after;
  let [figures, exponent] = rounded(Math.abs(x), digits);
  const reached = steps.filter(([p]) => p <= exponent + power);
  const step = reached[reached.length - 1] || steps[0] || own;
  const shift = step[0] - power;
  const wholeDigits = exponent - shift + 1;
  if (wholeDigits > digits && wholeDigits <= 15) {
    const carried = exponent;
    [figures, exponent] = rounded(Math.abs(x), wholeDigits);
    // 99999.9 was 1.000e5 and is 99999.9 with six digits: it has five before the point.
    if (exponent < carried) [figures, exponent] = rounded(Math.abs(x), wholeDigits - 1);
  }
  let number = decimal(figures, exponent - shift, commas);
  const point = number.indexOf(".");
  const whole = step[1] === "ns" || step[1] === "B" || step[1] === "FLOP";
  if (point >= 0 && (cut || (whole && /^0*$/.test(number.slice(point + 1))))) {
    const [mantissa, e] = number.split("e");
    number = withoutZeros(mantissa) + (e === undefined ? "" : "e" + e);
  }
  return (x < 0 ? "-" : "") + number + gap + step[1] + after;
}

const withoutZeros = (number) => number.replace(/0+$/, "").replace(/\.$/, "");

/** The first digits of a positive number, rounded, and the exponent of the first one. */
function rounded(x, digits) {
  const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
  return [mantissa.replace(".", ""), Number(exponent)];
}

function decimal(figures, exponent, commas) {
  if (exponent < -4 || exponent >= 15) {
    return figures[0] + (figures.length > 1 ? "." + figures.slice(1) : "") + "e" + exponent;
  }
  if (exponent < 0) return "0." + "0".repeat(-exponent - 1) + figures;
  const padded = figures.padEnd(exponent + 1, "0");
  const whole = padded.slice(0, exponent + 1);
  const fraction = padded.slice(exponent + 1);
  return (commas ? thousands(whole) : whole) + (fraction ? "." + fraction : "");
}

const thousands = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

/** A value on an axis: as `human`, with no more zeros than it needs. */
function short(value, unit) {
  return human(value, unit).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

/** How the numbers of one column are written: all with as many decimals, so that they align. */
function columnFormat(values, unit) {
  const numbers = values.filter((v) => typeof v === "number" && Number.isFinite(v));
  const known = SPELLINGS.get(unit);
  if (known && !unitInHead(unit)) return (v) => human(v, unit);
  if (numbers.every(Number.isInteger)) {
    return (v) => (typeof v === "number" ? (unit ? fixedDecimals(v, 0) : human(v)) : human(v));
  }
  const largest = numbers.reduce((max, v) => Math.max(max, Math.abs(v)), 0);
  const decimals = largest >= 1e5 ? 0 : largest >= 1e4 ? 1 : largest >= 100 ? 2 : 3;
  return (v) => {
    if (typeof v !== "number") return human(v);
    if (v !== 0 && Math.abs(v) < 0.5 * 10 ** -decimals) return short(v, "ratio");
    return fixedDecimals(v, decimals);
  };
}

function fixedDecimals(value, decimals) {
  if (Math.abs(value) >= 1e15) return human(value, "count");
  const [whole, fraction] = Math.abs(value).toFixed(decimals).split(".");
  return (value < 0 ? "-" : "") + thousands(whole) + (fraction ? "." + fraction : "");
}

/** A power of two of bytes, as `512 KiB`. */
function powerOfTwo(exponent) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const step = Math.min(Math.floor(exponent / 10), names.length - 1);
  return `${2 ** (exponent - 10 * step)} ${names[step]}`;
}
