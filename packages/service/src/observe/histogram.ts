/** A metric without its values. */
export interface MetricInfo {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly labels: readonly string[]
}

/** A histogram with one label, in the Prometheus text format. */
interface Histogram {
  observe(label: string, value: number): void
  text(): string
  readonly info: MetricInfo
}

interface HistogramOptions {
  readonly name: string
  readonly help: string
  readonly label: string
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[]
}

interface Series {
  /** Observations per bucket, not cumulative; the last is above all bounds. */
  readonly counts: number[]
  sum: number
}

/** Cheaper than the histogram of prom-client, because several values are observed per call. */
export function createHistogram({ name, help, label, buckets }: HistogramOptions): Histogram {
  const all = new Map<string, Series>()
  const seriesOf = (value: string): Series => {
    const found = all.get(value)
    if (found !== undefined) return found
    const made = { counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 }
    all.set(value, made)
    return made
  }
  const linesOf = ([value, { counts, sum }]: [string, Series]): string[] => {
    const own = `${label}="${escaped(value)}"`
    let below = 0
    const bounds = [...buckets.map(String), '+Inf']
    const lines = bounds.map((bound, index) => {
      below += counts[index] ?? 0
      return `${name}_bucket{le="${bound}",${own}} ${below}`
    })
    return [...lines, `${name}_sum{${own}} ${sum}`, `${name}_count{${own}} ${below}`]
  }
  return {
    info: { name, help, type: 'histogram', labels: [label] },
    observe(value, amount) {
      const series = seriesOf(value)
      let index = 0
      while (index < buckets.length && amount > (buckets[index] ?? 0)) index += 1
      series.counts[index] = (series.counts[index] ?? 0) + 1
      series.sum += amount
    },
    text: () => [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...[...all].flatMap(linesOf), ''].join('\n'),
  }
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
