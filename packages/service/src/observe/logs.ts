import { hash } from 'node:crypto'
import { isObject } from '@gantry/contract/internal/json'
import { createRedactor } from '@gantry/core/internal/json/redact'
import { traceIdOf } from '@gantry/core/internal/tracing/tracer'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { LoadedConfig } from '../config/config.ts'
import type { Bus, Subject } from './bus.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/**
 * One line of JSON per event, with `task_id`, `tenant` and, if there is one, `trace_id` for a call. Values under secret
 * names are redacted. U+2028, U+2029 and C1 controls, which JSON allows but terminals and some readers interpret, are
 * escaped.
 */
export function createLog(level: LogLevel, stream: DestinationStream, kept?: LogBuffer): Logger {
  const redactor = createRedactor()
  const safe: DestinationStream = {
    write(line) {
      const shown = line.replace(unescaped, escaped)
      stream.write(shown)
      kept?.write(shown)
    },
  }
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: {
        level: (label) => ({ level: label }),
        log(fields) {
          const shown = redactor.value(fields as never)
          return isObject(shown) ? shown : {}
        },
      },
    },
    safe,
  )
}

/** Lines that wait for the log file. Beyond a mebibyte they are dropped and counted, because a slow disk must stop no call. */
export interface LogBuffer {
  write(line: string): void
  /** Takes all lines out. */
  take(): { readonly lines: readonly string[]; readonly lost: number }
}

const mostWaiting = 1_048_576

export function createLogBuffer(): LogBuffer {
  let lines: string[] = []
  let characters = 0
  let lost = 0
  return {
    write(line) {
      if (characters + line.length > mostWaiting) lost += 1
      else {
        lines.push(line)
        characters += line.length
      }
    },
    take() {
      const taken = { lines, lost }
      lines = []
      characters = 0
      lost = 0
      return taken
    },
  }
}

/** Logs at the level of a configuration that came into use, and names the tools of its folder. */
export function logConfiguration(log: Logger, { service, toolsFolder }: LoadedConfig): void {
  log.level = service.logLevel
  if (toolsFolder === undefined) return
  const { path, tools, loaded, refused } = toolsFolder
  // The warnings have the reasons of refused files.
  const files = { files: loaded.length, refused: refused.map(({ file }) => file) }
  log.info({ folder: path, tools: tools.length, ...files }, 'tools of the folder')
}

/** The fields that identify a call in logs and traces. */
function named({ callId, tool, tenant, traceparent }: Subject): object {
  const trace = traceparent === undefined ? {} : { trace_id: traceIdOf(traceparent) }
  return { task_id: callId, ...trace, tool, tenant }
}

const longestError = 1_000

/** `error_id` is the same for the same failure of a tool, whatever numbers and quoted values its message has. */
function failureFields(tool: string, code: string, error = '', outcome?: string): object {
  return {
    code,
    error: error.slice(0, longestError),
    error_id: errorId(tool, code, error),
    ...(outcome === 'exception' ? { outcome } : {}),
  }
}

export function errorId(tool: string, code: string, message: string): string {
  const form = message.slice(0, longestError).replace(/"[^"]*"|'[^']*'|`[^`]*`|\d+/g, '#')
  return hash('sha256', `${tool}\n${code}\n${form}`).slice(0, 12)
}

const unescaped = /[\u007f-\u009f\u2028\u2029]/g

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Logs the events of the bus. */
export function logEvents(bus: Bus, log: Logger): () => void {
  /** An unavailable collector is logged once, not with every batch. */
  let losing = false
  const subscriptions = [
    bus.on('call:finished', ({ status, code, error, durationMs, outcome, retries, ...subject }) => {
      const failure = code === undefined ? {} : failureFields(subject.tool, code, error, outcome)
      const fields = { ...named(subject), status, ...failure, ...(retries === 0 ? {} : { retries }), durationMs }
      if (status === 'ok') log.info(fields, 'call ended')
      else log.warn(fields, 'call ended')
    }),
    bus.on('call:threw', ({ callId, parent, tool, identity, name, message, at, stack }) => {
      const task = { task_id: callId, ...(parent === undefined ? {} : { parent }), tool, tenant: identity.tenant }
      log.warn({ ...task, error: `${name}: ${message.slice(0, longestError)}`, at, stack }, 'tool threw')
    }),
    bus.on('call:claimed', ({ fence, deliveries, ...subject }) => {
      log.debug({ ...named(subject), fence, deliveries }, 'call claimed')
    }),
    bus.on('call:refused', ({ tool, code, tenant, principal, error }) => {
      const failure = error === undefined ? { code } : failureFields(tool, code, error)
      log.info({ tool, tenant, principal, ...failure }, 'call refused')
    }),
    bus.on('call:released', ({ reason, ...subject }) => {
      log.warn({ ...named(subject), reason }, 'call released')
    }),
    bus.on('outcome:held', ({ reason, held, ...subject }) => {
      log.error({ ...named(subject), reason, held }, 'outcome not recorded: held in memory and retried')
    }),
    bus.on('outcome:recorded', ({ held, ...subject }) => {
      log.info({ ...named(subject), held }, 'held outcome recorded')
    }),
    bus.on('outcome:lost', ({ reason, ...subject }) => {
      log.error({ ...named(subject), reason }, 'outcome lost: the worker stopped before it was recorded')
    }),
    bus.on('events:lost', ({ events, ...subject }) => {
      log.error({ ...named(subject), events }, 'progress events of a call lost: the store failed')
    }),
    bus.on('call:dead', ({ reason, ...subject }) =>
      log.error({ ...named(subject), reason }, 'call written to the dead letters'),
    ),
    bus.on('lease:lost', ({ callId }) => log.warn({ task_id: callId }, 'lease lost')),
    bus.on('lease:reclaimed', ({ calls }) => log.warn({ calls }, 'expired leases of other workers reclaimed')),
    bus.on('fence:refused', ({ callId, fence }) =>
      log.warn({ task_id: callId, fence }, 'outcome refused: another worker has claimed the call'),
    ),
    bus.on('circuit:changed', ({ kind, name, tenant }) => log.warn({ circuit: name, tenant }, `circuit ${kind}`)),
    bus.on('dependency:down', ({ dependency, reason }) => log.error({ dependency, reason }, 'dependency unavailable')),
    bus.on('dependency:up', ({ dependency, downMs }) => log.info({ dependency, downMs }, 'dependency available again')),
    bus.on('callback:tried', ({ callId, kind, outcome, error }) => {
      const what = kind === 'approval' ? 'message to the webhook of approvals' : kind
      if (outcome === 'sent') log.debug({ task_id: callId }, `${what} sent`)
      else log[outcome === 'dead' ? 'error' : 'warn']({ task_id: callId, outcome, error }, `${what} not delivered`)
    }),
    bus.on('upkeep:failed', ({ what, reason }) => log.error({ what, reason }, 'periodic job failed')),
    bus.on('relay:failed', ({ reason }) => log.error({ reason }, 'outbox unavailable')),
    bus.on('message:held', ({ transport, id, reason }) =>
      log.warn({ transport, message: id, reason }, 'message released for redelivery'),
    ),
    bus.on('message:gone', ({ source, position }) => {
      log.error({ source, position }, 'a message was removed from its stream before it was settled')
    }),
    bus.on('message:refused', ({ source, code, dead }) => log.warn({ source, code, dead }, 'message refused')),
    bus.on('server:differs', ({ worker, host, what, name, advice }) =>
      log.warn({ worker, host, what }, `the ${name} of another server differs from that of this one: ${advice}`),
    ),
    bus.on('server:agrees', ({ worker, what, name }) =>
      log.info({ worker, what }, `the ${name} of another server is that of this one again`),
    ),
    bus.on('issuer:down', ({ issuer, reason }) => log.error({ issuer, reason }, 'keys of an issuer unavailable')),
    bus.on('issuer:up', ({ issuer, downMs }) => log.info({ issuer, downMs }, 'keys of an issuer available again')),
    bus.on('audit:head', ({ head }) => log.info({ head }, 'audit log sealed')),
    bus.on('spool:changed', ({ depth }) => {
      if (depth > 0) log.warn({ depth }, 'outcomes wait in the spool')
      else log.info({ depth }, 'the spool is empty')
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
    bus.on('config:read', () => log.info('configuration reloaded')),
    bus.on('config:refused', ({ reason, issues }) => {
      log.error({ reason, issues }, 'configuration not used: it is invalid, and the previous one stays in use')
    }),
    bus.on('config:fixed', ({ keys }) => log.warn({ keys }, 'a change of these keys needs a restart')),
  ]
  return () => {
    for (const unsubscribe of subscriptions) unsubscribe()
  }
}
