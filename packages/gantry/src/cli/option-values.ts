import type { OptionInfo } from './option-table.ts'
import { usageError } from './usage.ts'

/** Reads the text of an option by its kind; throws INPUT_INVALID that says what is allowed. */
export function optionValue(name: string, { kind, choices }: OptionInfo, text: string): string | number | true {
  switch (kind) {
    case 'flag':
      return true
    case 'duration':
      return duration(name, text)
    case 'count':
      return count(name, text)
    case 'port':
      return port(name, text)
    default:
      if (choices !== undefined) return oneOf(name, text, choices)
      if (text === '') throw usageError(`--${name}`, `--${name} is empty.`)
      return text
  }
}

const units = { ms: 1, s: 1_000, m: 60_000 } as const
/** Node's timers hold no more. */
const longest = 2_147_483_647

function duration(name: string, text: string): number {
  const [, digits, unit] = /^(\d{1,10}(?:\.\d{1,6})?)(ms|s|m)?$/.exec(text) ?? []
  const ms = Number(digits) * units[(unit ?? 'ms') as keyof typeof units]
  if (ms > 0 && ms <= longest) return Math.max(1, Math.round(ms))
  throw usageError(
    `--${name}`,
    `--${name} takes a time above 0 such as 200ms, 5s or 2m (a bare number is milliseconds), not ${quoted(text)}.`,
  )
}

function count(name: string, text: string): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (value > 0) return value
  throw usageError(`--${name}`, `--${name} takes a whole number above 0, not ${quoted(text)}.`)
}

function port(name: string, text: string): number {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : 65_536
  if (value < 65_536) return value
  throw usageError(`--${name}`, `--${name} takes a port from 0 to 65535, not ${quoted(text)}.`)
}

function oneOf(name: string, text: string, allowed: readonly string[]): string {
  if (allowed.includes(text)) return text
  throw usageError(`--${name}`, `--${name} takes ${allowed.join(', ')}, not ${quoted(text)}.`)
}

/** What was typed, short enough for a message. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}
