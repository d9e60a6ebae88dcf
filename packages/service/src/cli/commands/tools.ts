import type { CatalogEntry } from '@gantry/core'
import { filterOf, listText } from '../find.ts'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withSources } from '../session.ts'

/** Lists tools by id. */
export const execute: Command = ({ options }, io) =>
  withSources(options, io, async (gantry) => {
    const allVersions = options['all-versions'] === true
    const page = gantry.tools({ ...filterOf(options), allVersions })
    const items = page.items.map(listedTool)
    const answer = page.cursor === undefined ? { items } : { items, cursor: page.cursor }
    if (options.json === true) await printJson(answer, io)
    else await io.out(listText(answer, io))
    return 0
  })

function listedTool({ key, tool, digest }: CatalogEntry) {
  const { version, title, description, tags = [], effect, deprecated } = tool
  return {
    id: key,
    version,
    ...(title === undefined ? {} : { title }),
    description,
    tags,
    effect,
    ...(deprecated === undefined ? {} : { deprecated }),
    digest,
  }
}
