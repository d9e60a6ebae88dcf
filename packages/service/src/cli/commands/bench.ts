import { performance } from 'node:perf_hooks'
import type { Command, Io } from '../io.ts'
import { readJson } from '../json-operand.ts'
import { printJson } from '../print.ts'
import { withCaller } from '../session.ts'
import { safeLine } from '../terminal.ts'
import { callSettings } from './run.ts'

const defaults = { seconds: 5, concurrency: 8 }
/** Times that are kept for the percentiles; more are counted only, so that a long run does not fill the memory. */
const mostSamples = 1_000_000

interface Measured {
  readonly calls: number
  readonly failed: number
  readonly seconds: number
  /** Milliseconds of each call, in ascending order. */
  readonly times: Float64Array
}

/** Calls a tool again and again for some seconds, and prints how many calls ended and how long they took. */
export const execute: Command = async ({ operands: [tool = 'demo:add', text], options }, io) => {
  const args = text === undefined ? (tool === 'demo:add' ? { a: 5, b: 3 } : {}) : await readJson('<json>', text, io)
  const { seconds = defaults.seconds, concurrency = defaults.concurrency } = options
  const settings = callSettings(options, io)
  return withCaller(options, io, async (caller) => {
    const call = async (): Promise<boolean> => {
      for await (const event of caller.stream(tool, args, settings)) {
        if (event.kind === 'done' || event.kind === 'error') return event.result.status === 'ok'
      }
      return false
    }
    io.err(`Calling ${safeLine(tool)} for ${seconds} s, ${concurrency} at a time …\n`)
    const measured = await measure(call, seconds * 1_000, concurrency, io)
    const figures = { tool, concurrency, ...figuresOf(measured) }
    if (options.json === true) await printJson(figures, io)
    else await io.out(`${linesOf(figures)}\n`)
    return measured.failed === 0 ? 0 : 1
  })
}

async function measure(call: () => Promise<boolean>, ms: number, concurrency: number, io: Io): Promise<Measured> {
  const times: number[] = []
  let calls = 0
  let failed = 0
  const start = performance.now()
  const lane = async (): Promise<void> => {
    while (performance.now() - start < ms && !io.signal.aborted) {
      const begun = performance.now()
      if (!(await call())) failed += 1
      calls += 1
      if (times.length < mostSamples) times.push(performance.now() - begun)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
  return { calls, failed, seconds: (performance.now() - start) / 1_000, times: Float64Array.from(times).sort() }
}

function figuresOf({ calls, failed, seconds, times }: Measured) {
  const at = (part: number): number => round(times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0)
  return {
    ...{ calls, failed, seconds: round(seconds), callsPerSecond: Math.round(calls / seconds) },
    ...{ p50Ms: at(0.5), p95Ms: at(0.95), p99Ms: at(0.99), maxMs: at(1) },
  }
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}

function linesOf(figures: ReturnType<typeof figuresOf> & { readonly tool: string }): string {
  const { tool, calls, failed, seconds, callsPerSecond, p50Ms, p95Ms, p99Ms, maxMs } = figures
  return [
    safeLine(`${tool}: ${calls} calls in ${seconds} s, ${callsPerSecond} a second, ${failed} failed`),
    `p50 ${p50Ms} ms · p95 ${p95Ms} ms · p99 ${p99Ms} ms · max ${maxMs} ms`,
  ].join('\n')
}
