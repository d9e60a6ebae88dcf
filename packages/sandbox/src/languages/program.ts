import { ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import type { Program } from '@gantry/core/internal/runtimes/runtime'
import type { Languages } from './languages.ts'

/** What a program's text may be at most; the kernel takes no longer argument. */
const programLimits = { textBytes: 1_048_576, words: 1_024, wordBytes: 131_071, argvBytes: 1_048_576 } as const

/** The arguments of `code:run` that say what to run. */
export interface CodeArguments {
  readonly language: string
  readonly code: string
}

/** The arguments of `shell:run` that say what to run: one of the two. */
export interface ShellArguments {
  readonly argv?: readonly string[]
  readonly script?: string
}

/** A program of code, its language by its one name. Throws INPUT_INVALID at `/language` or `/code`. */
export function codeProgram({ language, code }: CodeArguments, languages: Languages): Program {
  const { name } = languages.get(language)
  checkText(code, '/code')
  return { kind: 'code', language: name, code }
}

/** A command or a script. Throws INPUT_INVALID at the argument that is wrong. */
export function shellProgram({ argv, script }: ShellArguments): Program {
  if (argv !== undefined && script !== undefined) throw invalid('/script', 'stands beside argv; give one of the two')
  if (argv !== undefined) return { kind: 'argv', argv: checkArgv(argv) }
  if (script === undefined) throw invalid('', 'has neither argv nor script; give one of the two')
  checkText(script, '/script')
  return { kind: 'script', script }
}

function checkText(text: string, path: string): void {
  if (!text.isWellFormed()) throw invalid(path, 'holds half of a character pair')
  if (Buffer.byteLength(text) > programLimits.textBytes) {
    throw invalid(path, `is longer than ${programLimits.textBytes} bytes`)
  }
}

/** Arguments may be empty, a program's name not; the kernel knows no argument with a zero byte. */
function checkArgv(argv: readonly string[]): readonly [string, ...string[]] {
  const [program, ...rest] = argv
  if (program === undefined || program === '') throw invalid('/argv/0', 'must name a program')
  if (argv.length > programLimits.words) throw invalid('/argv', `has more than ${programLimits.words} words`)
  let bytes = 0
  for (const [index, word] of argv.entries()) {
    const path = `/argv/${index}`
    if (!word.isWellFormed()) throw invalid(path, 'holds half of a character pair')
    if (word.includes('\0')) throw invalid(path, 'holds a zero byte')
    const length = Buffer.byteLength(word)
    if (length > programLimits.wordBytes) throw invalid(path, `is longer than ${programLimits.wordBytes} bytes`)
    bytes += length
  }
  if (bytes > programLimits.argvBytes) throw invalid('/argv', `is longer than ${programLimits.argvBytes} bytes`)
  return [program, ...rest]
}

function invalid(path: string, message: string): ToolError {
  const where = path === '' ? 'The call' : quote(path)
  return new ToolError('INPUT_INVALID', `There is no program to run: ${where} ${message}.`, {
    details: { issues: [{ path, message }] },
  })
}
