import { extname } from 'node:path'
import type { JsonObject, Result } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { readJson, readTextFile, textLimit } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { createProgress, printOutcome } from '../print.ts'
import { languageIn } from '../program-language.ts'
import { withCaller } from '../session.ts'
import { safeBlock } from '../terminal.ts'
import { callSettings } from './run.ts'

const programTool = 'code:program'
const languages: { readonly [extension: string]: string } = {
  '.ts': 'typescript',
  '.mts': 'typescript',
  '.js': 'javascript',
  '.mjs': 'javascript',
  '.py': 'python',
  '.wf': 'workflow',
  '.workflow': 'workflow',
}

/** Runs a program over tools; what it prints goes to stderr as it comes, what it returns to stdout. */
export const runProgram: Command = async ({ operands: [file], options }, io) => {
  const { args, guessed } = await readProgram(file, options, io)
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
    const failed = result.error?.code
    if (guessed !== undefined && (failed === 'CODE_INVALID' || failed === 'CODE_FAILED')) {
      io.err(`detected language: ${guessed}; --language sets another\n`)
    }
    return code
  })
}

interface ReadProgram {
  readonly args: JsonObject
  /** The language, when only the content speaks for it. */
  readonly guessed?: string
}

async function readProgram(file: string | undefined, options: OptionValues, io: Io): Promise<ReadProgram> {
  const { eval: inline, check } = options
  if ((file === undefined) === (inline === undefined)) {
    throw usageError('<file>', 'Give the program as a file, as - for stdin, or as -e CODE.')
  }
  const limits = options.limits === undefined ? {} : { limits: await readJson('--limits', options.limits, io) }
  const code = inline ?? (file === '-' ? await io.readInput(textLimit) : readTextFile('<file>', file ?? '', io))
  const named = options.language ?? languages[extname(file ?? '')]
  const language = named ?? languageIn(code)
  return {
    args: {
      code,
      ...(language === undefined ? {} : { language }),
      ...(check === true ? { check } : {}),
      ...limits,
    },
    ...(named === undefined ? { guessed: language ?? 'typescript' } : {}),
  }
}

/** A chunk of a program is what it wrote to a stream. */
function printedText(data: unknown): string {
  return isObject(data) && typeof data.text === 'string' ? data.text : ''
}
