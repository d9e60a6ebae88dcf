import { resolve } from 'node:path'
import { findConfig } from '@gantry/service/internal/config/discover'
import { dataFolder } from '@gantry/service/internal/config/service-settings'
import {
  type ClientConfig,
  type ClientName,
  clientConfig,
  clientNames,
  type Way,
} from '@gantry/service/internal/mcp/client-configs'
import { findService } from '../find-service.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { usageError } from '../usage.ts'

/** Prints what a client is configured with; it writes no file of another program. */
export const execute: Command = async ({ operands: [client], options }, io) => {
  if (client !== undefined && !(clientNames as readonly string[]).includes(client)) {
    throw usageError(client, `There is no client ${client}; there are ${clientNames.join(', ')}.`)
  }
  const way = options.http === true ? await overHttp(options, io) : byProgram(options, io)
  const names = client === undefined ? clientNames : [client as ClientName]
  const configs = names.map((name) => ({ client: name, ...clientConfig(name, way) }))
  if (options.json === true) await printJson(client === undefined ? configs : configs[0], io)
  else await io.out(`${configs.map(paragraph).join('\n\n')}\n`)
  return 0
}

function paragraph({ title, file, text, notes }: ClientConfig): string {
  return [`# ${title}: ${file}`, ...notes.map((note) => `# ${note}`), text].join('\n')
}

/** The program that runs now. The client starts it in a folder of its own, so that every path is a whole one. */
function byProgram({ config, data }: OptionValues, io: Io): Way {
  const { environment, folder } = io
  const [, script = 'gantry'] = process.argv
  const file = findConfig(config, environment, folder)
  const place = data === undefined ? undefined : resolve(folder, data)
  const kept = place ?? (file === undefined ? dataFolder(folder, environment) : undefined)
  const where = [...(file === undefined ? [] : ['--config', file]), ...(kept === undefined ? [] : ['--data', kept])]
  return { kind: 'stdio', command: process.execPath, args: [script, 'mcp', ...where] }
}

async function overHttp(options: OptionValues, io: Io): Promise<Way> {
  const found = await findService(options, io)
  if (found.missing === undefined) {
    return {
      kind: 'http',
      url: `${found.url.replace(/(?<!\/)\/+$/, '')}/mcp`,
      key: options['with-key'] === true ? found.key : undefined,
    }
  }
  if (options['with-key'] === true) throw usageError('--with-key', `${found.missing} Start it to have its key.`)
  io.err(`${found.missing} The address is the one that gantry serve takes by default.\n`)
  return { kind: 'http', url: 'http://127.0.0.1:7420/mcp', key: undefined }
}
