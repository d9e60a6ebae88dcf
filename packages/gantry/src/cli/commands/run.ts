import { resolve } from 'node:path'
import type { ChainResult, ChainStep, Json, Result, StepResult } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { CallSettings } from '../caller.ts'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { readJson, readJsonFile } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { createProgress, printEvents, printOutcome } from '../print.ts'
import { withCaller } from '../session.ts'
import { safeLine } from '../terminal.ts'
import { saveFiles, withFiles } from './files.ts'

/** Runs a tool to its end; what it reports on the way goes to stderr. */
export const runTool: Command = async ({ operands: [tool = '', text], options }, io) => {
  const given = text === undefined ? {} : await readJson('<json>', text, io)
  const args = await withFiles(tool, given, options, io)
  return withCaller(options, io, async (caller) => {
    const progress = createProgress(io, options)
    let result: Result | undefined
    for await (const event of caller.stream(tool, args, callSettings(options, io))) {
      if (event.kind === 'done' || event.kind === 'error') result = event.result
      else progress.report(event)
    }
    progress.clear()
    if (result === undefined) throw new Error('The stream ended without a result.')
    const code = await printOutcome(result, options.json, io)
    const place = result.error?.exception === true ? caller.place(result.callId) : undefined
    if (place !== undefined) io.err(`${safeLine(tool)} threw an error; ${safeLine(place)}\n`)
    const { out } = options
    if (out === undefined) return code
    const force = options.force === true
    const read = (id: string): AsyncIterable<Uint8Array> => caller.artifact(id, io.signal)
    const { saved, withheld } = await saveFiles(result.output, resolve(io.folder, out), { force, read })
    for (const file of saved) io.err(`Wrote ${safeLine(file)}.\n`)
    for (const path of withheld) {
      io.err(
        `Not written: ${safeLine(path)}, because programs here may execute or obey a file of that name; --force writes it.\n`,
      )
    }
    return code
  })
}

/** How the command line changes a call. */
export function callSettings(options: OptionValues, { signal }: Io): CallSettings {
  const { timeout, 'idempotency-key': key, 'on-circuit-open': onOpen, backend } = options
  return {
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(backend === undefined ? {} : { backend }),
    ...(onOpen === undefined ? {} : { onCircuitOpen: onOpen }),
    signal,
  }
}

/** Runs a tool and prints what happens as it happens; a slow reader slows the tool. */
export const streamTool: Command = async ({ operands: [tool = '', text], options }, io) => {
  const args = text === undefined ? {} : await readJson('<json>', text, io)
  return withCaller(options, io, (caller) =>
    printEvents(caller.stream(tool, args, callSettings(options, io)), options, io),
  )
}

/** Runs a chain; which step is at work goes to stderr. */
export const runChain: Command = async ({ operands: [source = ''], options }, io) => {
  const { steps, input } = await readChain(source, options, io)
  const resume = options.resume === undefined ? {} : { resume: await readResume(options.resume, io) }
  return withCaller(options, io, async (caller) => {
    const progress = createProgress(io, options)
    const { timeout, 'on-circuit-open': onOpen } = options
    const how = {
      ...(timeout === undefined ? {} : { timeoutMs: timeout }),
      ...(onOpen === undefined ? {} : { onCircuitOpen: onOpen }),
    }
    const result = await caller.chain(steps, { input, signal: io.signal, progress, ...how, ...resume })
    progress.clear()
    if (result.error !== undefined) io.err(stepLines(result))
    return printOutcome(result, options.json, io)
  })
}

interface ChainDocument {
  readonly steps: readonly ChainStep[]
  readonly input: Json
}

/** A list of steps, or an object with `steps` and perhaps `input`; core checks the steps themselves. */
async function readChain(source: string, options: OptionValues, io: Io): Promise<ChainDocument> {
  const inline = source === '-' || /^\s*[[{]/.test(source) || source.startsWith('@')
  const document = inline ? await readJson('<file>', source, io) : await readJsonFile('<file>', source, io)
  const input = options.input === undefined ? undefined : await readJson('--input', options.input, io)
  if (isSteps(document)) return { steps: document, input: input ?? null }
  if (!isObject(document) || !isSteps(document.steps)) {
    throw usageError('<file>', 'A chain is a list of steps, or {"steps": […], "input": …}.')
  }
  const extra = Object.keys(document).find((key) => key !== 'steps' && key !== 'input')
  if (extra !== undefined) throw usageError('<file>', `A chain has "steps" and "input", not ${JSON.stringify(extra)}.`)
  return { steps: document.steps, input: input ?? document.input ?? null }
}

/** Unchecked on purpose: `gantry.chain` checks every step and answers with a ChainResult. */
function isSteps(value: unknown): value is readonly ChainStep[] {
  return Array.isArray(value)
}

async function readResume(file: string, io: Io): Promise<{ steps: readonly StepResult[] }> {
  const document = await readJsonFile('--resume', resolve(io.folder, file), io)
  const steps = isObject(document) ? document.steps : undefined
  if (!isStepResults(steps)) throw usageError('--resume', `${file} holds no ChainResult: it has no list of steps.`)
  return { steps }
}

/** Unchecked, as the steps of a chain. */
function isStepResults(value: unknown): value is readonly StepResult[] {
  return Array.isArray(value)
}

function stepLines({ steps }: ChainResult): string {
  return steps.map((step) => `  ${safeLine(`${step.id} ${step.state}`)}\n`).join('')
}
