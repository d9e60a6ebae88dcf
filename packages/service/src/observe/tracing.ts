import { readFileSync } from 'node:fs'
import { ToolError } from '@gantry/contract'
import type { Tracer } from '@gantry/core'
import { resolveText } from '../config/secret-sources.ts'
import type { TracingSettings } from '../config/service-settings.ts'
import type { Bus } from './bus.ts'

export interface TracingOptions {
  /** URL of the collector, with or without `/v1/traces`. */
  readonly endpoint: string
  /** Sent with every batch; secrets are already resolved. */
  readonly headers: { readonly [name: string]: string }
  /** Share of new traces that is sampled, from 0 to 1; for other traces the caller decides. */
  readonly sample: number
  /** Authorities in PEM for the collector's certificate, instead of Node's. */
  readonly ca?: string
  /** Identifies this process. */
  readonly worker: string
  readonly bus: Bus
}

/**
 * Exports traces to a collector, by OTLP over HTTP.
 * - Concurrency: spans are queued and sent in batches, one batch at a time; calls never wait for the collector. When
 *   the queue is full, new spans are dropped and counted.
 * - Errors: none; lost spans are emitted on the bus.
 */
export interface Tracing {
  readonly tracer: Tracer
  /** Sends queued spans within this time, and closes the connection. */
  close(ms: number): Promise<void>
}

/** Imports OpenTelemetry, which is not loaded before. */
export async function openTracing(options: TracingOptions): Promise<Tracing> {
  const { otelTracing } = await import('./otel.ts')
  return otelTracing(options)
}

/** Tracing to the configured collector; undefined when none is configured, and then OpenTelemetry is not loaded. */
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

/** Refuses a value that is invalid in a header at the start, because it would fail with every batch. */
function fitting(name: string, value: string): string {
  if (/^[\t\x20-\x7e]*$/.test(value)) return value
  const issues = [{ path: `/tracing/headers/${name}`, message: 'may contain only printable ASCII characters' }]
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
