import { readFileSync } from 'node:fs'
import { ToolError } from '@gantry/contract'
import type { Tracer } from '@gantry/core'
import { resolveText } from '../config/secret-text.ts'
import type { TracingSettings } from '../config/service-settings.ts'
import type { Bus } from './bus.ts'

export interface TracingOptions {
  /** Where the collector is, with or without the `/v1/traces` of OTLP. */
  readonly endpoint: string
  /** Sent with every batch; secrets are in it as they are. */
  readonly headers: { readonly [name: string]: string }
  /** Which part of the traces that begin here is kept, from 0 to 1; for all others their caller has decided. */
  readonly sample: number
  /** Certificates, in PEM, that the collector's may be signed with instead of those that Node knows. */
  readonly ca?: string
  /** Names this process among all. */
  readonly worker: string
  readonly bus: Bus
}

/**
 * Traces on their way to a collector, by OTLP over HTTP.
 * - Concurrency: spans are kept until a batch of them is sent, one batch at a time, so that nobody waits for a collector.
 *   When it is away or slow for so long that too many wait, the newest are dropped and counted.
 * - Errors: none; what could not be sent is told on the bus.
 */
export interface Tracing {
  readonly tracer: Tracer
  /** Sends what waits, for no longer than this, and lets go of the connection. */
  close(ms: number): Promise<void>
}

/** Loads OpenTelemetry, of which nothing is there before. */
export async function openTracing(options: TracingOptions): Promise<Tracing> {
  const { otelTracing } = await import('./otel.ts')
  return otelTracing(options)
}

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
