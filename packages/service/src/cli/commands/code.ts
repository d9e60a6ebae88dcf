import { extname } from 'node:path'
import type { JsonObject, Result } from '@gantry/contract'
import type { Command, Io } from '../io.ts'
import { readJson, readTextFile, textLimit } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { printOutcome } from '../print.ts'
import { createProgress } from '../progress.ts'
import { withCaller } from '../session.ts'
import { safeBlock } from '../terminal.ts'
import { usageError } from '../usage.ts'
import { callSettings } from './run.ts'

const programTool = 'code:program'
const languages: { readonly [extension: string]: string } = {
  ...{ '.ts': 'typescript', '.mts': 'typescript', '.js': 'javascript', '.mjs': 'javascript' },
  ...{ '.py': 'python', '.wf': 'workflow', '.workflow': 'workflow' },
}

/** Runs a program over tools; what it prints goes to stderr as it comes, what it returns to stdout. */
export const execute: Command = async ({ operands: [file], options }, io) => {
  const args = await readProgram(file, options, io)
  return withCaller(options, io, async (caller) => {
    const progress = createProgress(io, options)
    let result: Result | undefined
    for await (const event of caller.stream(programTool, args, callSettings(options, io))) {
      if (event.kind === 'done' || event.kind === 'error') result = event.result
      else if (event.kind === 'chunk') {
        progress.clear()
        io.err(safeBlock(printedText(event.data)))
      } else progress.report(event)
    }
    progress.clear()
    if (result === undefined) throw new Error('The stream ended without a result.')
    const code = await printOutcome(result, options.json, io)
    const frame = result.error?.details?.frame
    if (typeof frame === 'string') io.err(`${safeBlock(frame)}\n`)
    return code
  })
}

async function readProgram(file: string | undefined, options: OptionValues, io: Io): Promise<JsonObject> {
  const { eval: inline, check } = options
  if ((file === undefined) === (inline === undefined)) {
    throw usageError('<file>', 'Give the program as a file, as - for stdin, or as -e CODE.')
  }
  const limits = options.limits === undefined ? {} : { limits: await readJson('--limits', options.limits, io) }
  const code = inline ?? (file === '-' ? await io.readInput(textLimit) : readTextFile('<file>', file ?? '', io))
  const language = options.language ?? languages[extname(file ?? '')] ?? languageIn(code)
  return {
    code,
    ...(language === undefined ? {} : { language }),
    ...(check === true ? { check } : {}),
    ...limits,
  }
}

/** Enough of a program to tell its language by; a line is read so far only, because it may be of any length. */
const looked = { characters: 20_000, line: 200 }

/** The language of a program without a known extension, by what only one of them has; undefined for the usual one. */
function languageIn(code: string): string | undefined {
  const lines = code
    .slice(0, looked.characters)
    .split('\n')
    .map((line) => line.slice(0, looked.line).trimEnd())
  const [first = ''] = lines.filter((line) => line !== '')
  if (first.startsWith('#!')) return /\bpython/.test(first) ? 'python' : undefined
  if (lines.some((line) => /^\s*[A-Za-z_]\w*\s*:=/.test(line))) return 'workflow'
  return first.startsWith('#') || lines.some((line) => pythonLine.test(line)) ? 'python' : undefined
}

/** An import without quotes, or the head of a block that ends with a colon. */
const pythonLine =
  /^(?:import [\w.]+(?: as \w+)?(?:, [\w.]+)*$|from [\w.]+ import |\s*(?:async )?(?:def|class|for|while|if|elif|else|with|try|except|finally)\b[^{}]*:$)/

/** A chunk of a program is what it wrote to a stream. */
function printedText(data: unknown): string {
  const { text } = (typeof data === 'object' && data !== null ? data : {}) as { readonly text?: unknown }
  return typeof text === 'string' ? text : ''
}
