import type { OpenapiImport } from '@gantry/openapi'
import { safeLine } from './terminal.ts'

/** As many as a person reads; --json has them all. */
const most = 20

/** What an import made and what it did not, and what is left to do. */
export function importText(made: OpenapiImport, file: string): string {
  const { name, baseUrl, report } = made
  const { callbacks, webhooks, links } = report.notImported
  const others = Object.entries({ callbacks, webhooks, links }).filter(([, count]) => count > 0)
  const lines = [
    `Imported ${report.imported} tools of ${name} at ${baseUrl}.`,
    `Written to ${file}.`,
    ...(report.notChosen > 0 ? [`Not chosen: ${report.notChosen} operations.`] : []),
    ...(others.length > 0 ? [`Not imported: ${others.map(([what, count]) => `${count} ${what}`).join(', ')}.`] : []),
    ...section(
      'Left out',
      report.leftOut.map(({ operation, reason }) => `${operation}: ${reason}`),
    ),
    ...section('Warnings', grouped(report.warnings)),
    ...section(
      'Secrets to set',
      report.secrets.map((secret) => `${secret.name}: ${secret.what}`),
    ),
    '',
    'Add to the configuration:',
    ...configLines(made, file),
  ]
  return `${lines.map(safeLine).join('\n')}\n`
}

/** Warnings that say the same of many places are one line, so that they do not bury what is said once. */
function grouped(warnings: OpenapiImport['report']['warnings']): readonly string[] {
  const groups = new Map<string, { readonly first: string; readonly message: string; count: number }>()
  for (const { operation, path, message } of warnings) {
    // Names and values in quotes, numbers and what follows a colon differ from place to place.
    const kind = message.replaceAll(/"[^"]*"|\d+/g, '…').split(':', 1)[0] ?? ''
    const known = groups.get(kind)
    if (known === undefined) groups.set(kind, { first: operation ?? path, message, count: 1 })
    else known.count += 1
  }
  return [...groups.values()]
    .sort((a, b) => a.count - b.count)
    .map(({ first, message, count }) => {
      const more = count > 1 ? ` (and ${count - 1} more like it)` : ''
      return `${first}: ${message}${more}`
    })
}

function section(title: string, rows: readonly string[]): readonly string[] {
  if (rows.length === 0) return []
  const left = rows.length - most
  const shown = rows.slice(0, most).map((row) => `  ${row}`)
  return ['', `${title} (${rows.length}):`, ...shown, ...(left > 0 ? [`  and ${left} more; --json has them all`] : [])]
}

/** In YAML, of which JSON is a part, so that each line may be copied into either. */
function configLines({ name, report }: OpenapiImport, file: string): readonly string[] {
  const backend = JSON.stringify({ kind: 'http', name, tools: file })
  const secrets = report.secrets.map((secret) => {
    const env = secret.name.toUpperCase().replaceAll(/[^A-Z0-9]+/g, '_')
    return `  ${JSON.stringify(secret.name)}: ${JSON.stringify({ env })}`
  })
  return [
    '  backends:',
    `    - ${backend}`,
    ...(secrets.length === 0 ? [] : ['  secrets:', ...secrets.map((line) => `  ${line}`)]),
  ]
}
