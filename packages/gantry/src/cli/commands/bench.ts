import { performance } from 'node:perf_hooks'
import type { ErrorCode, Result } from '@gantry/contract'
import type { Command, Io } from '../io.ts'
import { readJson } from '../json-operand.ts'
import { printJson, printOutcome } from '../print.ts'
import { withCaller } from '../session.ts'
import { safeLine } from '../terminal.ts'
import { callSettings } from './run.ts'

const defaults = { seconds: 5, concurrency: 8 }
/** Times that are kept for the percentiles; more are counted only, so that a long run does not fill the memory. */
const mostSamples = 1_000_000

/** Errors that every later call would meet too, so that there is nothing to measure. */
const lasting: ReadonlySet<string> = new Set<ErrorCode>([
  'TOOL_NOT_FOUND',
  'TOOL_ID_INVALID',
  'INPUT_INVALID',
  'DENIED',
  'UNAUTHENTICATED',
])

interface Measured {
  readonly calls: number
  /** How many calls ended with each code. */
  readonly failures: { readonly [code: string]: number }
  readonly seconds: number
  /** Milliseconds of each call, in ascending order. */
  readonly times: Float64Array
  /** The error that ended the measurement before its time. */
  readonly stopped?: Result
}

/** Calls a tool again and again for some seconds, and prints how many calls ended, how, and how long they took. */
export const benchTool: Command = async ({ operands: [tool = 'demo:add', text], options }, io) => {
  const args = text === undefined ? (tool === 'demo:add' ? { a: 5, b: 3 } : {}) : await readJson('<json>', text, io)
  const { seconds = defaults.seconds, concurrency = defaults.concurrency } = options
  const settings = callSettings(options, io)
  return withCaller(options, io, async (caller) => {
    const call = async (): Promise<Result> => {
      for await (const event of caller.stream(tool, args, settings)) {
        if (event.kind === 'done' || event.kind === 'error') return event.result
      }
      throw new Error('The stream ended without a result.')
    }
    io.err(`Calling ${safeLine(tool)} for ${seconds} s, ${concurrency} at a time …\n`)
    const measured = await measure(call, seconds * 1_000, concurrency, io)
    if (measured.stopped !== undefined) return printOutcome(measured.stopped, options.json, io)
    const figures = { tool, concurrency, ...figuresOf(measured) }
    if (options.json === true) await printJson(figures, io)
    else await io.out(`${linesOf(figures)}\n`)
    return figures.failed === 0 ? 0 : 1
  })
}

async function measure(call: () => Promise<Result>, ms: number, concurrency: number, io: Io): Promise<Measured> {
  const times: number[] = []
  let calls = 0
  const failures = new Map<string, number>()
  let stopped: Result | undefined
  const start = performance.now()
  const lane = async (): Promise<void> => {
    while (performance.now() - start < ms && stopped === undefined && !io.signal.aborted) {
      const begun = performance.now()
      const result = await call()
      calls += 1
      if (result.error !== undefined) {
        const { code } = result.error
        failures.set(code, (failures.get(code) ?? 0) + 1)
        if (lasting.has(code)) stopped ??= result
      }
      if (times.length < mostSamples) times.push(performance.now() - begun)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
  const seconds = (performance.now() - start) / 1_000
  return {
    calls,
    failures: Object.fromEntries(failures),
    seconds,
    times: Float64Array.from(times).sort(),
    ...(stopped === undefined ? {} : { stopped }),
  }
}

function figuresOf({ calls, failures, seconds, times }: Measured) {
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0)
  const at = (part: number): number => round(times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0)
  return {
    calls,
    failed,
    failures,
    seconds: round(seconds),
    callsPerSecond: Math.round(calls / seconds),
    p50Ms: at(0.5),
    p95Ms: at(0.95),
    p99Ms: at(0.99),
    maxMs: at(1),
  }
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}

function linesOf(figures: ReturnType<typeof figuresOf> & { readonly tool: string }): string {
  const { tool, calls, failed, failures, seconds, callsPerSecond, p50Ms, p95Ms, p99Ms, maxMs } = figures
  return [
    safeLine(`${tool}: ${calls} calls in ${seconds} s, ${callsPerSecond} a second, ${failed} failed`),
    ...Object.entries(failures).map(([code, count]) => safeLine(`${count} × ${code}`)),
    `p50 ${p50Ms} ms · p95 ${p95Ms} ms · p99 ${p99Ms} ms · max ${maxMs} ms`,
  ].join('\n')
}
