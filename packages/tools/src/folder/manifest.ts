import type { JsonSchema, SandboxedBinding } from '@gantry/contract'
import { anyText } from '@gantry/core/internal/options/option'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'
import { type DefinedTool, defineTool, type ToolDefinition } from '@gantry/core/internal/tools/tool'
import { readBinding } from '@gantry/sandbox/internal/backends/request'
import type { FolderFile } from './entry.ts'

/** `name.tool.json` describes the program `name.py`, `name.js`, `name.sh`, `name.wasm` or `name` beside it. */
export const manifestName = /^(.+)\.tool\.(?:json|ya?ml)$/

/** Reads another file of the folder. */
export type ReadFile = (name: string) => Promise<FolderFile>

/** Members of a definition that are code, or that only a module or a configuration sets. */
type NotInManifests =
  | 'backends'
  | 'run'
  | 'lookup'
  | 'icons'
  | 'limits'
  | 'breaker'
  | 'onCircuitOpen'
  | 'cost'
  | 'cache'

/** The description of a tool and of its program; `name` is that of the file when absent. */
interface Manifest extends Omit<ToolDefinition<JsonSchema>, 'name' | NotInManifests> {
  readonly name?: string
  /** The file beside the manifest that is run. */
  readonly program?: string
  readonly language?: string
  /** Additional files of the folder in the working directory of the program. */
  readonly files?: readonly string[]
  readonly env?: SandboxedBinding['env'] & object
  readonly credentials?: SandboxedBinding['credentials'] & object
  /** Of the sandbox. */
  readonly limits?: SandboxedBinding['limits'] & object
  /** How its output is parsed, as `output` of a sandboxed binding. */
  readonly result?: SandboxedBinding['output'] & string
}

/** What is `true` here is checked with the tool or with its sandboxed binding. */
const manifestCheck = optionsCheck<Manifest>({
  members: {
    namespace: true,
    name: true,
    version: true,
    title: true,
    description: true,
    inputSchema: true,
    outputSchema: true,
    annotations: true,
    tags: true,
    docs: true,
    examples: true,
    deprecated: true,
    aliases: true,
    effect: true,
    output: true,
    timeoutMs: true,
    permissions: true,
    secrets: true,
    egress: true,
    profile: true,
    runtime: true,
    concurrencyKey: true,
    concurrency: true,
    retry: true,
    approval: true,
    placement: true,
    background: true,
    program: { type: 'string', description: 'the name of a file' },
    language: anyText,
    files: { type: 'array', maxItems: 64, items: anyText, description: 'a list of at most 64 names of files' },
    env: true,
    credentials: true,
    limits: true,
    result: true,
  },
  noun: 'known',
})

/** A value with the members of a manifest only; `defineTool` and the catalog check those of the tool. */
function manifestOf(value: unknown): Manifest {
  checkOptions('manifest', manifestCheck, value)
  return value as Manifest
}

/** Names of the files that the manifest uses, which are not tools themselves. */
export interface DescribedTool {
  readonly tool: DefinedTool
  readonly uses: readonly string[]
}

/**
 * The tool that a manifest describes. Its program gets the arguments as JSON on its standard input, in a sandbox of its
 * own; what it returns, writes as `{"value": …}` on descriptor 3, or prints, is the output.
 */
export async function describedTool(
  said: unknown,
  base: string,
  siblings: ReadonlySet<string>,
  read: ReadFile,
): Promise<DescribedTool> {
  const { program: named, language, files = [], env, credentials, limits, result, ...definition } = manifestOf(said)
  const program = named ?? programBeside(base, siblings)
  const beside = Object.fromEntries(await Promise.all(files.map(async (name) => [name, asFile(await read(name))])))
  const binding = {
    kind: 'sandboxed',
    ...programOf(await read(program), language, beside),
    ...(env === undefined ? {} : { env }),
    ...(credentials === undefined ? {} : { credentials }),
    ...(limits === undefined ? {} : { limits }),
    ...(result === undefined ? {} : { output: result }),
  }
  const tool = defineTool({ name: base, ...definition, backends: [binding] })
  readBinding(binding, tool.tool)
  return { tool, uses: [program, ...files] }
}

const extensions = ['.py', '.js', '.mjs', '.ts', '.sh', '.wasm', ''] as const
const languages: { readonly [extension: string]: string } = {
  py: 'python',
  js: 'javascript',
  mjs: 'javascript',
  ts: 'typescript',
}

function programBeside(base: string, siblings: ReadonlySet<string>): string {
  const found = extensions.map((extension) => `${base}${extension}`).find((name) => siblings.has(name))
  if (found === undefined)
    throw new Error(`names no program, and there is no ${base}.py, .js, .ts, .sh, .wasm or ${base}`)
  return found
}

/** Code that an interpreter waits for, a WASI module, or else a file that the kernel can start. */
function programOf(
  file: FolderFile,
  language: string | undefined,
  beside: SandboxedBinding['files'] & object,
): Omit<SandboxedBinding, 'kind'> {
  const { name, bytes } = file
  const extension = name.includes('.') ? (name.split('.').at(-1) ?? '') : ''
  const spoken = language ?? (Object.hasOwn(languages, extension) ? languages[extension] : undefined)
  const around = Object.keys(beside).length === 0 ? {} : { files: beside }
  if (spoken !== undefined) return { language: spoken, code: bytes.toString('utf8'), ...around }
  if (extension === 'sh') return { script: bytes.toString('utf8'), ...around }
  if (extension === 'wasm') return { language: 'wasm', code: name, files: { ...beside, [name]: asFile(file) } }
  if (!file.executable) throw new Error(`${name} is neither in a known language nor executable`)
  // The name has no character that is special to a shell.
  return { script: `chmod +x './${name}' && exec './${name}'`, files: { ...beside, [name]: asFile(file) } }
}

function asFile({ bytes }: FolderFile): { readonly base64: string } {
  return { base64: bytes.toString('base64') }
}
