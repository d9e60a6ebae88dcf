import type { Tracer } from '@gantry/core'
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
