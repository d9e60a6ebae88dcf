import { mkdir, writeFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

const configuration = dedented(`
  // The configuration of Gantry. \`gantry config check\` checks it; \`gantry docs reference/configuration\` lists every key.
  import { greet } from './tools.mjs'

  export default {
    // Tools that are functions. Files of the folder \`toolsFolder\` become tools too, without a line here.
    tools: [greet],

    // Rules decide who may call what, in any order: a rule that denies wins over one that asks, and that over one that allows.
    // \`gantry policy test my:greet\` explains a decision.
    policy: {
      default: 'allow',
      rules: [
        // { deny: 'shell:*', to: 'guest*', reason: 'Guests run no commands.' },
        // { ask: 'code:run', reason: 'A person approves programs; see gantry approvals ls.' },
      ],
    },

    // Origins that tools and sandboxes may reach; none without a line here.
    egress: {
      allow: [
        // 'https://api.example.com',
      ],
    },

    // \`gantry serve\` keeps everything in .gantry beside this file; DATABASE_URL names a PostgreSQL instead.
    // service: { port: 7420 },
  }
`)

const tools = dedented(`
  import { defineTool } from 'gantry'

  export const greet = defineTool({
    namespace: 'my',
    name: 'greet',
    version: '1.0.0',
    description: 'Greets a person by name.',
    inputSchema: {
      type: 'object',
      properties: { name: { type: 'string', minLength: 1 } },
      required: ['name'],
      additionalProperties: false,
    },
    // What may be repeated after a crash: read, keyed, reconcilable, once (the default) or repeatable.
    effect: 'read',
    timeoutMs: 5_000,
    run: ({ name }, context) => {
      context.log('info', 'greeting')
      return { greeting: \`Hello, \${name}!\` }
    },
  })
`)

const toolsTest = dedented(`
  import assert from 'node:assert/strict'
  import { test } from 'node:test'
  import { createTestExecutor } from 'gantry/testing'
  import { greet } from './tools.mjs'

  // A test executor has a fixed clock and fixed ids, and no network; \`gantry docs testing\` says how to record HTTP.
  test('greet greets by name', async () => {
    const gantry = createTestExecutor({ tools: [greet] })
    const result = await gantry.run('my:greet', { name: 'Ada' })
    await gantry.close()
    assert.deepEqual([result.status, result.output], ['ok', { greeting: 'Hello, Ada!' }])
  })

  test('greet refuses arguments that do not fit', async () => {
    const gantry = createTestExecutor({ tools: [greet] })
    const { error } = await gantry.run('my:greet', {})
    await gantry.close()
    assert.equal(error?.code, 'INPUT_INVALID')
  })
`)

const files = { 'gantry.config.mjs': configuration, 'tools.mjs': tools, 'tools.test.mjs': toolsTest } as const

/** Writes a configuration with comments, a tool, and a test of it. Writes nothing when one of the files exists. */
export const initProject: Command = async ({ operands: [name = '.'], options }, io) => {
  const folder = resolve(io.folder, name)
  const paths = Object.keys(files).map((file) => join(folder, file))
  const { lstatSync } = await import('node:fs')
  // A link that leads nowhere is there too.
  const isThere = (path: string) => lstatSync(path, { throwIfNoEntry: false }) !== undefined
  await mkdir(folder, { recursive: true }).catch((cause) => Promise.reject(unwritable(folder, cause)))
  const other = ['ts', 'js', 'json', 'yaml', 'yml'].map((end) => join(folder, `gantry.config.${end}`)).find(isThere)
  if (other !== undefined) {
    throw new ToolError('INPUT_INVALID', `${other} is a configuration already; choose another folder.`, {
      stage: 'admit',
    })
  }
  const existing = paths.filter(isThere)
  if (existing.length > 0 && options.force !== true) {
    throw new ToolError(
      'INPUT_INVALID',
      `${existing.join(', ')} ${existing.length === 1 ? 'exists; --force replaces it' : 'exist; --force replaces them'}.`,
      { stage: 'admit' },
    )
  }
  for (const [file, text] of Object.entries(files)) {
    const path = join(folder, file)
    await writeFile(path, text, { flag: options.force === true ? 'w' : 'wx' }).catch((cause) =>
      Promise.reject(unwritable(path, cause)),
    )
  }
  if (options.json === true) await printJson({ folder, files: Object.keys(files) }, io)
  else {
    for (const path of paths) await io.out(`${safeLine(path)}\n`)
    const there = relative(io.folder, folder)
    const enter = there === '' ? '' : `cd ${safeLine(there)} && `
    // Started by npx, the user has no `gantry` on the PATH.
    const gantry = io.environment.npm_command === undefined ? 'gantry' : 'npx gantry'
    const next = [`${gantry} config check`, `${gantry} run my:greet '{"name":"Ada"}'`, 'node --test', `${gantry} serve`]
    io.err(`Try it:\n${next.map((line) => `  ${enter}${line}\n`).join('')}`)
    io.err(
      'The test and an editor find `gantry` once it is installed in the folder; the command needs no installation there.\n',
    )
    io.err('The service keeps its data and its key in .gantry: leave that folder out of version control.\n')
  }
  return 0
}

function unwritable(path: string, cause: unknown): ToolError {
  return new ToolError('INPUT_INVALID', `${path} cannot be written.`, { stage: 'admit', cause })
}

/** The text without its first line break and two spaces before each line. */
function dedented(text: string): string {
  return text.slice(1).replace(/^ {2}/gm, '')
}
