import { readFileSync } from 'node:fs'
import { ToolError } from '@gantry/contract'
import { resolveText } from '../config/secret-text.ts'
import type { TracingSettings } from '../config/service-settings.ts'
import type { Bus } from './bus.ts'
import { openTracing, type Tracing } from './tracing.ts'

/** The way to the collector that the configuration names; undefined when it names none, and then nothing is loaded. */
export async function tracingOf(
  settings: TracingSettings | undefined,
  { secrets, worker, bus }: { readonly secrets: unknown; readonly worker: string; readonly bus: Bus },
): Promise<Tracing | undefined> {
  if (settings === undefined) return undefined
  const { endpoint, sample = 1, caFile } = settings
  const headers: { [name: string]: string } = {}
  for (const [name, text] of Object.entries(settings.headers ?? {})) {
    headers[name] = fitting(name, await resolveText(text, secrets, `the header ${name} of traces needs`))
  }
  const ca = caFile === undefined ? {} : { ca: readCertificates(caFile) }
  return openTracing({ endpoint, sample, headers, worker, bus, ...ca })
}

/** What no header can hold would fail with every batch, long after anybody looks. */
function fitting(name: string, value: string): string {
  if (/^[\t\x20-\x7e]*$/.test(value)) return value
  const issues = [{ path: `/tracing/headers/${name}`, message: 'may hold only printable ASCII characters' }]
  throw new ToolError('CONFIG_INVALID', `The header ${name} of traces ${issues[0]?.message}.`, { details: { issues } })
}

function readCertificates(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const issues = [{ path: '/tracing/caFile', message: 'cannot be read' }]
    throw new ToolError('CONFIG_INVALID', `The certificates ${file} cannot be read.`, { cause, details: { issues } })
  }
}
