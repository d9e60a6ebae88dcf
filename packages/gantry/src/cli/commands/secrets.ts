import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { SecretStore } from '@gantry/core'
import type { StoreKey } from '@gantry/core/internal/secrets/store-key'
import { unknownName, usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

const keyVariable = 'GANTRY_SECRETS_KEY'
/** More than a store takes, so that the store's own limit refuses. */
const mostInput = 67_108_864

/** Keeps the encrypted store of secrets. A value comes from stdin or is typed unseen, and is never shown. */
export const manageSecrets: Command = async ({ command, operands, options }, io) => {
  const [name = ''] = operands
  switch (command) {
    case 'secrets init':
      return init(options, io)
    case 'secrets set':
      return set(name, options, io)
    case 'secrets remove':
      return remove(name, options, io)
    case 'secrets rekey':
      return rekey(options, io)
    default:
      return list(options, io)
  }
}

async function init(options: OptionValues, io: Io): Promise<number> {
  const { openSecretStore } = await import('@gantry/core')
  const { createKeyFile } = await import('@gantry/core/internal/secrets/store-key')
  const keyFile = options['key-file']
  if (keyFile === undefined)
    throw usageError('--key-file', 'gantry secrets init needs --key-file FILE for the new key.')
  const store = storeFile(options, io)
  if (existsSync(store))
    throw usageError('--store', `There is a store ${store} already; gantry secrets rekey changes its key.`)
  const file = resolve(io.folder, keyFile)
  await createKeyFile(file)
  await openSecretStore({ file: store, key: { file }, create: true })
  const text = `Created the store ${store} and its key file ${file}. Keep the key apart from the store and out of version control.`
  return answer({ store, keyFile: file }, text, options, io)
}

async function set(name: string, options: OptionValues, io: Io): Promise<number> {
  const store = await openStore(options, io, true)
  const value = (await io.askSecret(`Value of ${safeLine(name)}: `, mostInput)).replace(/\r?\n$/, '')
  await store.set(name, value, io.signal)
  return answer({ name }, `Set ${name}.`, options, io)
}

async function list(options: OptionValues, io: Io): Promise<number> {
  const names = await (await openStore(options, io)).list()
  if (options.json === true) await printJson({ names }, io)
  else await io.out(names.map((name) => `${safeLine(name)}\n`).join(''))
  return 0
}

async function remove(name: string, options: OptionValues, io: Io): Promise<number> {
  const store = await openStore(options, io)
  if (!(await store.remove(name, io.signal))) {
    throw await unknownName('name', `There is no secret ${JSON.stringify(name)}.`, name, await store.list())
  }
  return answer({ name }, `Removed ${name}.`, options, io)
}

/** Makes the new key first: should the change fail, the old key still opens the store. */
async function rekey(options: OptionValues, io: Io): Promise<number> {
  const { createKeyFile } = await import('@gantry/core/internal/secrets/store-key')
  const newFile = options['new-key-file']
  if (newFile === undefined) throw usageError('--new-key-file', 'gantry secrets rekey needs --new-key-file FILE.')
  const store = await openStore(options, io)
  const file = resolve(io.folder, newFile)
  if (!existsSync(file)) await createKeyFile(file)
  await store.rekey({ file }, io.signal)
  return answer(
    { keyFile: file },
    `The store is now encrypted with the key in ${file}. Rotate the secrets too if the old key leaked.`,
    options,
    io,
  )
}

async function openStore(options: OptionValues, io: Io, create = false): Promise<SecretStore> {
  const { openSecretStore } = await import('@gantry/core')
  const { environment } = io
  return openSecretStore({ file: storeFile(options, io), key: keyOf(options, io), environment, create })
}

function keyOf(options: OptionValues, io: Io): StoreKey {
  const keyFile = options['key-file']
  if (keyFile !== undefined) return { file: resolve(io.folder, keyFile) }
  if (io.environment[keyVariable]) return { variable: keyVariable }
  throw usageError('--key-file', `The key of the store is needed: in ${keyVariable}, or in a file named by --key-file.`)
}

function storeFile({ store }: OptionValues, { folder, environment }: Io): string {
  return resolve(folder, store ?? join(environment.GANTRY_DATA || '.gantry', 'secrets'))
}

async function answer(value: object, text: string, { json }: OptionValues, io: Io): Promise<number> {
  if (json === true) await printJson(value, io)
  else await io.out(`${safeLine(text)}\n`)
  return 0
}
