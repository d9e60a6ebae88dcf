import { resolve } from 'node:path'
import type { ChainResult, ChainStep, Json, OnCircuitOpen, StepResult } from '@gantry/contract'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { readJson, readJsonFile } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { createProgress, printOutcome } from '../print.ts'
import { withCaller } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Runs a chain; which step is at work goes to stderr. */
export const runChain: Command = async ({ operands: [source = ''], options }, io) => {
  const { steps, input } = await readChain(source, options, io)
  const resume = options.resume === undefined ? {} : { resume: await readResume(options.resume, io) }
  return withCaller(options, io, async (caller) => {
    const progress = createProgress(io, options)
    const { timeout, 'on-circuit-open': onOpen } = options
    const how = {
      ...(timeout === undefined ? {} : { timeoutMs: timeout }),
      ...(onOpen === undefined ? {} : { onCircuitOpen: onOpen as OnCircuitOpen }),
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
  if (Array.isArray(document)) return { steps: asSteps(document), input: input ?? null }
  if (typeof document !== 'object' || document === null || !Array.isArray(document.steps)) {
    throw usageError('<file>', 'A chain is a list of steps, or {"steps": […], "input": …}.')
  }
  const extra = Object.keys(document).find((key) => key !== 'steps' && key !== 'input')
  if (extra !== undefined) throw usageError('<file>', `A chain has "steps" and "input", not ${JSON.stringify(extra)}.`)
  return { steps: asSteps(document.steps), input: input ?? document.input ?? null }
}

/** Unchecked on purpose: `gantry.chain` checks every step and answers with a ChainResult. */
function asSteps(list: readonly Json[]): readonly ChainStep[] {
  return list as unknown as readonly ChainStep[]
}

async function readResume(file: string, io: Io): Promise<{ steps: readonly StepResult[] }> {
  const document = await readJsonFile('--resume', resolve(io.folder, file), io)
  const steps = typeof document === 'object' && document !== null && 'steps' in document ? document.steps : undefined
  if (!Array.isArray(steps)) throw usageError('--resume', `${file} holds no ChainResult: it has no list of steps.`)
  return { steps: steps as unknown as StepResult[] }
}

function stepLines({ steps }: ChainResult): string {
  return steps.map((step) => `  ${safeLine(`${step.id} ${step.state}`)}\n`).join('')
}
