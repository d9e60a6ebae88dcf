import type { ProgramFault } from '@gantry/core/internal/runtimes/runtime'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import type { GatewayResponse, GuestChannel } from '../channel/guest-channel.ts'
import type { GuestClock } from './engine.ts'
import { bodyHead } from './evaluate.ts'
import { faultOf, lastFault, outOfMemory } from './fault.ts'
import type { Guest } from './guest.ts'
import { killedCode, type Run } from './run.ts'
import {
  ParserFellError,
  type Place,
  type Stripped,
  stripTypesMapped,
  syntaxFault,
  TypeScriptError,
} from './strip-types.ts'

const jobsAtOnce = 1_000

/**
 * ## Program over tools
 *
 * Runs a program to its end. States: `running`, `resting`, `ended`.
 *
 * | from      | to        | cause                                                                                |
 * | --------- | --------- | ------------------------------------------------------------------------------------ |
 * | `running` | `resting` | no promise job is left                                                               |
 * | `resting` | `running` | one response is delivered                                                            |
 * | `resting` | `ended`   | its promise is rejected, or fulfilled with every call answered, or no request is open |
 * | any       | `ended`   | a limit, an exit, or the host's request to stop                                      |
 *
 * Between two responses it always comes to rest, also when the next one has arrived already: its requests are collected,
 * and its end is checked. So where it ends, and what exceeds a budget, follow from the order of its responses alone, not
 * from their timing.
 */
export function runGatewayProgram(
  promise: QuickJSHandle,
  guest: Guest,
  run: Run,
  line: GuestChannel,
  clock: GuestClock,
): void {
  guest.call('watch', promise)
  while (!run.over) {
    drain(guest, run)
    if (!run.over) rest(guest, run, line, clock)
  }
}

/** Runs promise jobs, whose number may be unbounded. */
function drain({ gatewayCalls, engine }: Guest, run: Run): void {
  while (!run.over && gatewayCalls.pending) {
    const went = gatewayCalls.work(jobsAtOnce)
    run.look()
    if (!went) broken(run, engine.refused)
  }
}

function rest(guest: Guest, run: Run, line: GuestChannel, clock: GuestClock): void {
  const said = guest.gatewayCalls.rest() ?? ''
  const state = said[0]
  line.take(said)
  if (state === undefined) broken(run, guest.engine.refused)
  else if (state === 'r') run.fault(lastFault(guest), guest.engine.refused)
  else if (state === 'f' && line.owed === 0) end(guest, run)
  else if (line.open === 0) run.fault(unsettled, guest.engine.refused)
  else nextResponse(guest, run, line, clock)
}

/** Delivers a response that has arrived, or waits for one. */
function nextResponse(guest: Guest, run: Run, line: GuestChannel, clock: GuestClock): void {
  const answer = line.next() ?? run.rest(line)
  if (line.stopped) run.end(killedCode)
  else if (answer !== undefined && !run.over) deliver(answer, guest, run, clock)
}

function deliver(
  { number, ok, text, nowMs }: GatewayResponse,
  { gatewayCalls, engine }: Guest,
  run: Run,
  clock: GuestClock,
): void {
  if (nowMs !== undefined) clock.advance(nowMs)
  if (!gatewayCalls.deliver(number, ok, text)) broken(run, engine.refused)
  run.look()
}

/**
 * The program stopped early: it reached a limit, ran out of memory, or changed the built-ins that its tools use.
 */
function broken(run: Run, refusedMemory: boolean): void {
  run.host.interrupt()
  run.fault(refusedMemory ? outOfMemory : bent, refusedMemory)
}

const bent: ProgramFault = {
  kind: 'run',
  name: 'Error',
  message:
    'The program changed a part of the language by which it asks and is answered; leave built-in objects as they are.',
}
const unsettled: ProgramFault = {
  kind: 'run',
  name: 'Error',
  message: 'The program waits for a promise that never settles; await what you call, and settle your own promises.',
}

function end(guest: Guest, run: Run): void {
  const { context, call } = guest
  const said = call('end')
  if (said.error === undefined) {
    const text = context.getString(said.value)
    run.returned(text.slice(text.indexOf(' ') + 1), Number.parseInt(text, 10))
  } else {
    const { name, message } = faultOf(guest, said.error)
    const text = `The value that was returned is not JSON: ${message}`
    run.fault({ kind: 'run', name, message: text }, guest.engine.refused)
  }
}

/** Starts a program with a gateway, which is the body of an async function; undefined when it does not compile. */
export function startProgram(
  { code, language }: { readonly code: string; readonly language: string },
  guest: Guest,
  run: Run,
): QuickJSHandle | undefined {
  const whole = `${bodyHead}${code.replace(/^\uFEFF/, ' ').replace(/^#!/, '//')}\n})()`
  try {
    const { text, original }: Stripped = language === 'typescript' ? stripTypesMapped(whole) : { text: whole }
    if (original !== undefined) {
      guest.place(0)
      run.places = (place) => inBody(original(place))
    }
    const result = guest.context.evalCode(text, 'main.js', { type: 'global' })
    if (result.error === undefined) return result.value
    refuse(faultOf(guest, result.error, 'compile'), whole, guest, run)
  } catch (error) {
    if (error instanceof TypeScriptError) run.fault(syntaxError(error.message, error.place, whole), false)
    else throw fallen(error, run)
  }
  return undefined
}

/** Reports a crashed parser and returns the error to rethrow, so that the thread runs nothing else. */
function fallen(error: unknown, run: Run): unknown {
  if (error instanceof ParserFellError) run.fault({ kind: 'compile', name: error.name, message: error.message }, false)
  return error
}

/** Ends the run with the compiler's message. */
function refuse(fault: ProgramFault, whole: string, { engine }: Guest, run: Run): void {
  try {
    run.fault(sharper(fault, whole), engine.refused)
  } finally {
    // The first end counts: this one applies only when the other parser crashed.
    run.fault(fault, engine.refused)
  }
}

/** QuickJS gives the line of a syntax error but not its column; the other parser does when it finds the same error. */
function sharper(fault: ProgramFault, whole: string): ProgramFault {
  if (/call stack|stack overflow/.test(fault.message)) return { ...fault, message: 'The code is nested too deeply.' }
  const found = fault.name === 'SyntaxError' ? syntaxFault(whole) : undefined
  if (found === undefined) return fault
  return syntaxError(found.message, found.place, whole)
}

/** An error in our own last line is an error at the end of the program. */
function syntaxError(message: string, place: Place | undefined, whole: string): ProgramFault {
  const common = { kind: 'compile', name: 'SyntaxError' } as const
  if (place === undefined) return { ...common, message }
  const lines = whole.split('\n')
  if (place.line < lines.length) return { ...common, message, ...inBody(place) }
  const end = { line: lines.length - 1, column: (lines.at(-2)?.length ?? 0) + 1 }
  return { ...common, message: 'Unexpected end of the program: something is not closed', ...inBody(end) }
}

/** Converts a position in the whole text to one in the program. */
function inBody({ line, column }: Place): Place {
  return { line, column: line === 1 ? Math.max(1, column - bodyHead.length) : column }
}
