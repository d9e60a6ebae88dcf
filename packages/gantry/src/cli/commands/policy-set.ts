import { resolve } from 'node:path'
import type { PolicyDocument } from '@gantry/client'
import { ToolError } from '@gantry/contract'
import { readDataFile } from '@gantry/service/internal/config/read-data'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { factsText } from '../table.ts'

/** What one request to the service can hold is less. */
const mostBytes = 4_194_304

/** Makes the rules of a file the policy of the service, besides what its configuration says. */
export const execute: Command = async ({ operands: [file = ''], options }, io) => {
  const said = await readDataFile(resolve(io.folder, file), mostBytes)
  if (typeof said !== 'object' || said === null || Array.isArray(said)) {
    throw new ToolError('CONFIG_INVALID', `The file ${file} must hold { rules: [...], default }, as \`policy\` does.`)
  }
  return withService(options, io, async (client) => {
    const view = await client.policy.set(said as unknown as PolicyDocument, { signal: io.signal })
    if (options.json === true) await printJson(view, io)
    else await io.out(factsText({ version: view.version, set: `version ${view.stored?.version}` }))
    return 0
  })
}
