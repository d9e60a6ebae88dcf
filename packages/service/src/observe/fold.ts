const sample = /^([a-z_:][\w:]*)\{(.*)\} (\S+)$/i
const label = /\b(\w+)="((?:[^"\\]|\\.)*)"/g

/**
 * Metrics in the text form of Prometheus with everything under the given labels counted together as `other`. For what
 * can be added up: counters, and the parts of histograms.
 */
export function foldLabels(text: string, folded: readonly string[]): string {
  const sums = new Map<string, number>()
  const lines = text.split('\n').map((line) => {
    const [, name = '', labels = '', value = ''] = sample.exec(line) ?? []
    let touched = false
    const told = labels.replace(label, (pair, key: string) => {
      if (!folded.includes(key)) return pair
      touched = true
      return `${key}="other"`
    })
    if (!touched) return line
    const series = `${name}{${told}}`
    const before = sums.get(series)
    sums.set(series, (before ?? 0) + Number(value))
    return before === undefined ? { series } : undefined
  })
  return lines
    .filter((line) => line !== undefined)
    .map((line) => (typeof line === 'string' ? line : `${line.series} ${sums.get(line.series)}`))
    .join('\n')
}
