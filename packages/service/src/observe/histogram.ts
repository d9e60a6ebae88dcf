/** How often something took how long, by one label, in the text form of Prometheus. */
export interface Histogram {
  observe(label: string, value: number): void
  text(): string
}

export interface HistogramOptions {
  readonly name: string
  readonly help: string
  readonly label: string
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[]
}

interface Series {
  /** Of each bucket alone, and last what is above all of them. */
  readonly counts: number[]
  sum: number
}

/** Several values are observed for each call, so that this costs no more than adding them up; prom-client's costs more. */
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
