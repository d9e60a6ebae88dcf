const longestName = 150

/** Types that a browser cannot run anything of, wherever it meets them. */
const passive =
  /^(?:image\/(?:avif|gif|jpeg|png|webp)|(?:audio|video)\/[a-z0-9.+-]{1,64}|text\/(?:csv|plain)|application\/(?:gzip|json|pdf|zip))$/

/** The type to answer a download with where no other header keeps a browser from showing it. */
export function passiveType(mimeType: string): string {
  return passive.test(mimeType) ? mimeType : 'application/octet-stream'
}

/** `Content-Disposition` of a file that a tool has named: it may end no header, leave no folder, and is not shown. */
export function attachment(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\/%]/g, '_').replace(/^\.+/, '_')
  const whole = name
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\\/]/gu, '_')
    .replace(/^\.+/, '_')
  const ascii = plain.slice(0, longestName).trim() || 'artifact'
  const utf8 = encodeURIComponent([...whole].slice(0, longestName).join('')).replace(/['()*]/g, hex)
  return `attachment; filename="${ascii}"; filename*=UTF-8''${utf8 || 'artifact'}`
}

function hex(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`
}
