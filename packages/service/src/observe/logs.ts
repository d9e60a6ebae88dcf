import { createRedactor } from '@gantry/core'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { Bus } from '../stores/bus.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/**
 * One line of JSON for each thing worth knowing, with `task_id` where it is about a call.
 * Values whose names say that they are secret are taken out; U+2028 and U+2029, which JSON leaves in and some readers
 * take for the end of a line, are escaped.
 */
export function createLog(level: LogLevel, stream: DestinationStream): Logger {
  const redactor = createRedactor()
  const safe: DestinationStream = {
    write: (line) => stream.write(line.replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')),
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

/** Writes what happens in the service. */
export function logEvents(bus: Bus, log: Logger): () => void {
  const hearings = [
    bus.on('call:finished', ({ callId, tool, tenant, status, code, durationMs }) => {
      const fields = { task_id: callId, tool, tenant, status, ...(code === undefined ? {} : { code }), durationMs }
      if (status === 'ok') log.info(fields, 'call ended')
      else log.warn(fields, 'call ended')
    }),
    bus.on('call:claimed', ({ callId, tool, fence, deliveries }) => {
      log.debug({ task_id: callId, tool, fence, deliveries }, 'call claimed')
    }),
    bus.on('call:refused', ({ tool, code, tenant }) => log.info({ tool, code, tenant }, 'call refused')),
    bus.on('call:released', ({ callId, tool, reason }) => {
      log.warn({ task_id: callId, tool, reason }, 'call handed back')
    }),
    bus.on('call:dead', ({ callId, tool, reason }) => log.error({ task_id: callId, tool, reason }, 'call given up')),
    bus.on('lease:lost', ({ callId }) => log.warn({ task_id: callId }, 'lease lost')),
    bus.on('lease:reclaimed', ({ calls }) => log.warn({ calls }, 'leases of others ran out')),
    bus.on('fence:refused', ({ callId, fence }) => log.warn({ task_id: callId, fence }, 'outcome came too late')),
    bus.on('circuit:changed', ({ kind, name }) => log.warn({ circuit: name }, `circuit ${kind}`)),
    bus.on('store:down', ({ reason }) => log.error({ reason }, 'database away')),
    bus.on('store:up', ({ downMs }) => log.info({ downMs }, 'database back')),
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
    bus.on('broker:down', ({ transport, reason }) => log.error({ transport, reason }, 'broker away')),
    bus.on('broker:up', ({ transport, downMs }) => log.info({ transport, downMs }, 'broker back')),
    bus.on('spool:changed', ({ depth }) => {
      if (depth > 0) log.warn({ depth }, 'outcomes wait on disk')
      else log.info({ depth }, 'no outcome waits on disk any more')
    }),
    bus.on('worker:changed', ({ state }) => log.info({ state }, 'worker')),
  ]
  return () => {
    for (const unhear of hearings) unhear()
  }
}
