/** The name under which connections keep a prepared statement; undefined when it is not kept. One text has one name. */
export type NameOf = (sql: string) => string | undefined

/** Hot statements are few and always the same text; this many are prepared on each connection. */
const mostPrepared = 200

export function createNames(start: string): NameOf {
  const names = new Map<string, string>()
  return (sql) => {
    const known = names.get(sql)
    if (known !== undefined || names.size >= mostPrepared) return known
    const name = `${start}_${names.size}`
    names.set(sql, name)
    return name
  }
}
