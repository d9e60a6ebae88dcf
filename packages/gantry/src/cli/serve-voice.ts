import { causeOf } from './errors.ts'
import type { Io } from './io.ts'
import { safeJson, safeLine } from './terminal.ts'

/** How a service speaks on stderr: in lines of JSON to programs, in short ones to a person at a terminal. */
export interface Voice {
  /** A line of the log, as the service writes it. */
  log(line: string): void
  say(message: string, fields?: { readonly [name: string]: string }): void
  /** Something that ends the process. */
  fatal(thrown: unknown): void
}

export function serviceVoice(io: Pick<Io, 'err'>, person: boolean): Voice {
  const log = (line: string): void => io.err(person ? shortLine(line) : line)
  const write = (level: string, msg: string, fields: object): void => {
    log(`${safeJson({ level, time: new Date().toISOString(), pid: process.pid, ...fields, msg })}\n`)
  }
  return {
    log,
    say(message, fields = {}) {
      if (!person) return write('info', message, fields)
      const lines = [message, ...Object.values(fields).map((value) => `  ${value}`)]
      io.err(lines.map((line) => `${safeLine(line)}\n`).join(''))
    },
    fatal(thrown) {
      const { name, message } = causeOf(thrown, 1)
      write('fatal', 'something failed outside of its call; the service ends, because its state is not known', {
        error: `${name}: ${message}`,
        ...(thrown instanceof Error && !person ? { stack: String(thrown.stack).slice(0, 10_000) } : {}),
      })
    },
  }
}

/** `12:30:01 info call ended tool=demo:add status=ok` of a line of JSON; one that is not is shown as it is. */
function shortLine(line: string): string {
  try {
    const { level, time, pid: _pid, msg, ...fields } = JSON.parse(line)
    const facts = Object.entries(fields).map(([name, value]) => `${name}=${plain(value)}`)
    return `${safeLine([String(time).slice(11, 19), level, msg, ...facts].join(' '))}\n`
  } catch {
    return `${safeLine(line.trimEnd())}\n`
  }
}

function plain(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
