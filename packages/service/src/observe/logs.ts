import { createRedactor } from '@gantry/core/internal/json/redact'
import { traceIdOf } from '@gantry/core/internal/tracing/tracer'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { Bus, Subject } from './bus.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/**
 * One line of JSON for each thing worth knowing, with `task_id`, `tenant` and, where there is one, `trace_id` where it is
 * about a call.
 * Values whose names say that they are secret are taken out; what JSON leaves in and some readers
 * take for the end of a line or the beginning of a command, U+2028, U+2029 and the controls behind ASCII, is escaped.
 */
export function createLog(level: LogLevel, stream: DestinationStream): Logger {
  const redactor = createRedactor()
  const safe: DestinationStream = {
    write: (line) => stream.write(line.replace(unescaped, escaped)),
  }
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => redactor.value(fields as never) as unknown as Record<string, unknown>,
      },
    },
    safe,
  )
}

/** The names by which the lines of one call are found, here and in its trace. */
function named({ callId, tool, tenant, traceparent }: Subject): object {
  const trace = traceparent === undefined ? {} : { trace_id: traceIdOf(traceparent) }
  return { task_id: callId, ...trace, tool, tenant }
}

const unescaped = /[\u007f-\u009f\u2028\u2029]/g

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Writes what happens in the service. */
export function logEvents(bus: Bus, log: Logger): () => void {
  /** A collector that is away is told of once, not with every batch. */
  let losing = false
  const hearings = [
    bus.on('call:finished', ({ status, code, durationMs, outcome, retries, ...subject }) => {
      const failure = { ...(code === undefined ? {} : { code }), ...(outcome === 'exception' ? { outcome } : {}) }
      const fields = { ...named(subject), status, ...failure, ...(retries === 0 ? {} : { retries }), durationMs }
      if (status === 'ok') log.info(fields, 'call ended')
      else log.warn(fields, 'call ended')
    }),
    bus.on('call:claimed', ({ fence, deliveries, ...subject }) => {
      log.debug({ ...named(subject), fence, deliveries }, 'call claimed')
    }),
    bus.on('call:refused', ({ tool, code, tenant }) => log.info({ tool, code, tenant }, 'call refused')),
    bus.on('call:released', ({ reason, ...subject }) => {
      log.warn({ ...named(subject), reason }, 'call handed back')
    }),
    bus.on('outcome:held', ({ reason, held, ...subject }) => {
      log.error({ ...named(subject), reason, held }, 'outcome not recorded: held in memory and tried again')
    }),
    bus.on('outcome:recorded', ({ held, ...subject }) => {
      log.info({ ...named(subject), held }, 'held outcome recorded')
    }),
    bus.on('outcome:lost', ({ reason, ...subject }) => {
      log.error({ ...named(subject), reason }, 'outcome lost: the worker stopped before it was recorded')
    }),
    bus.on('events:lost', ({ events, ...subject }) => {
      log.error({ ...named(subject), events }, 'reports of a call lost: the store failed')
    }),
    bus.on('call:dead', ({ reason, ...subject }) => log.error({ ...named(subject), reason }, 'call given up')),
    bus.on('lease:lost', ({ callId }) => log.warn({ task_id: callId }, 'lease lost')),
    bus.on('lease:reclaimed', ({ calls }) => log.warn({ calls }, 'leases of others ran out')),
    bus.on('fence:refused', ({ callId, fence }) => log.warn({ task_id: callId, fence }, 'outcome came too late')),
    bus.on('circuit:changed', ({ kind, name, tenant }) => log.warn({ circuit: name, tenant }, `circuit ${kind}`)),
    bus.on('dependency:down', ({ dependency, reason }) => log.error({ dependency, reason }, 'dependency unavailable')),
    bus.on('dependency:up', ({ dependency, downMs }) => log.info({ dependency, downMs }, 'dependency available again')),
    bus.on('callback:tried', ({ callId, kind, outcome, error }) => {
      if (outcome === 'sent') log.debug({ task_id: callId }, `${kind} sent`)
      else log[outcome === 'dead' ? 'error' : 'warn']({ task_id: callId, outcome, error }, `${kind} not taken`)
    }),
    bus.on('upkeep:failed', ({ what, reason }) => log.error({ what, reason }, 'upkeep failed')),
    bus.on('relay:failed', ({ reason }) => log.error({ reason }, 'outbox not reached')),
    bus.on('message:held', ({ transport, id, reason }) =>
      log.warn({ transport, message: id, reason }, 'message put off'),
    ),
    bus.on('message:gone', ({ source, position }) => {
      log.error({ source, position }, 'a message was removed from its stream before it was settled')
    }),
    bus.on('message:refused', ({ source, code, dead }) => log.warn({ source, code, dead }, 'message refused')),
    bus.on('issuer:down', ({ issuer, reason }) => log.error({ issuer, reason }, 'keys of an issuer away')),
    bus.on('issuer:up', ({ issuer, downMs }) => log.info({ issuer, downMs }, 'keys of an issuer back')),
    bus.on('audit:head', ({ head }) => log.info({ head }, 'audit record sealed')),
    bus.on('spool:changed', ({ depth }) => {
      if (depth > 0) log.warn({ depth }, 'outcomes wait in the spool')
      else log.info({ depth }, 'no outcome waits in the spool any more')
    }),
    bus.on('spans:lost', ({ spans, reason }) => {
      if (!losing) log.warn({ spans, reason }, 'traces are lost')
      losing = true
    }),
    bus.on('spans:sent', () => {
      if (losing) log.info('traces arrive again')
      losing = false
    }),
    bus.on('worker:changed', ({ state }) => log.info({ state }, 'worker')),
    bus.on('config:read', () => log.info('configuration read again')),
    bus.on('config:refused', ({ reason, issues }) => {
      log.error({ reason, issues }, 'configuration not used: it is wrong, and the one before stays in use')
    }),
    bus.on('config:fixed', ({ keys }) => log.warn({ keys }, 'what was changed at these keys needs a restart')),
  ]
  return () => {
    for (const unhear of hearings) unhear()
  }
}
