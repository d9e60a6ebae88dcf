import { ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import type { Program } from '@gantry/core/internal/runtimes/runtime'
import type { Languages } from './languages.ts'

/** Limits of a program's text and arguments; the kernel accepts no longer argument. */
const programLimits = { textBytes: 1_048_576, words: 1_024, wordBytes: 131_071, argvBytes: 1_048_576 } as const

/** The arguments of `code:run` that define the program. */
export interface CodeArguments {
  readonly language: string
  readonly code: string
}

/** The arguments of `shell:run` that define the program: exactly one of the two. */
export interface ShellArguments {
  readonly argv?: readonly string[]
  readonly script?: string
}

/** A code program with the canonical name of its language. Throws INPUT_INVALID at `/language` or `/code`. */
export function codeProgram({ language, code }: CodeArguments, languages: Languages): Program {
  const { name } = languages.get(language)
  checkText(code, '/code')
  return { kind: 'code', language: name, code }
}

/** Names of the language whose programs are WASI modules; no row of the table of languages describes it. */
const moduleLanguages: readonly string[] = ['wasm', 'wasi']

export function isModuleLanguage(language: string): boolean {
  return moduleLanguages.includes(language.toLowerCase())
}

const moduleStart = [0x00, 0x61, 0x73, 0x6d]

/**
 * A WASI preview 1 module, which is one of the program's files because it is not text; `code` is its path. Throws
 * INPUT_INVALID at `/code` when no file has that path or it is no WebAssembly.
 */
export function moduleProgram(path: string, module: Uint8Array | undefined): Program {
  if (module === undefined) throw invalid('/code', 'must be the path of the module in `files`, such as main.wasm')
  if (!moduleStart.every((byte, index) => module[index] === byte)) {
    throw invalid('/code', `names ${quote(path)}, which does not start as a WebAssembly module`)
  }
  return { kind: 'wasi', module }
}

/** A command or a script. Throws INPUT_INVALID at the invalid argument. */
export function shellProgram({ argv, script }: ShellArguments): Program {
  if (argv !== undefined && script !== undefined) throw invalid('/script', 'cannot be combined with argv')
  if (argv !== undefined) return { kind: 'argv', argv: checkArgv(argv) }
  if (script === undefined) throw invalid('', 'needs argv or script')
  checkText(script, '/script')
  return { kind: 'script', script }
}

function checkText(text: string, path: string): void {
  if (!text.isWellFormed()) throw invalid(path, 'holds half of a character pair')
  if (Buffer.byteLength(text) > programLimits.textBytes) {
    throw invalid(path, `is longer than ${programLimits.textBytes} bytes`)
  }
}

/** Arguments may be empty, the program name may not; the kernel accepts no argument with a NUL byte. */
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
