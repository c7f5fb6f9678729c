// Paint a picture's marks on a canvas, for its PNG file.
import { FACES, HEADING, MARGIN, type Mark, type PageColours, type Picture } from "./picture";

const SCALE = 2;

export function png(picture: Picture, page: PageColours): Promise<Blob> {
  const [width, height] = [picture.width + 2 * MARGIN, picture.height + HEADING + 2 * MARGIN];
  const canvas = new OffscreenCanvas(Math.ceil(width * SCALE), Math.ceil(height * SCALE));
  const context = canvas.getContext("2d")!;
  context.scale(SCALE, SCALE);
  context.fillStyle = page.paper;
  context.fillRect(0, 0, width, height);
  context.translate(MARGIN, MARGIN);
  paint(context, { kind: "text", x: 0, y: 14, text: picture.title, fill: page.ink, size: 14, weight: 600 });
  context.translate(-(picture.left ?? 0), HEADING - (picture.top ?? 0));
  for (const mark of picture.marks) paint(context, mark);
  return canvas.convertToBlob({ type: "image/png" });
}

function paint(context: OffscreenCanvasRenderingContext2D, mark: Mark): void {
  context.save();
  context.globalAlpha = "opacity" in mark ? (mark.opacity ?? 1) : 1;
  if ("dash" in mark && mark.dash) context.setLineDash(mark.dash.split(" ").map(Number));
  if ("thick" in mark) context.lineWidth = mark.thick ?? 1;
  if ("stroke" in mark && mark.stroke) context.strokeStyle = mark.stroke;
  if ("fill" in mark && mark.fill) context.fillStyle = mark.fill;
  if (mark.kind === "text") write(context, mark);
  else if (mark.kind === "image") {
    context.imageSmoothingEnabled = false;
    context.drawImage(mark.canvas, mark.x, mark.y, mark.width, mark.height);
  } else {
    const shape = outline(mark);
    if (mark.kind === "path") context.transform(...mark.at);
    if ("fill" in mark && mark.fill) context.fill(shape);
    if (mark.stroke) context.stroke(shape);
  }
  context.restore();
}

function outline(mark: Exclude<Mark, { kind: "text" | "image" }>): Path2D {
  if (mark.kind === "path") return new Path2D(mark.d);
  const shape = new Path2D();
  if (mark.kind === "rect") shape.rect(mark.x, mark.y, mark.width, mark.height);
  else if (mark.kind === "circle") shape.arc(mark.x, mark.y, mark.r, 0, 2 * Math.PI);
  else {
    shape.moveTo(mark.x1, mark.y1);
    shape.lineTo(mark.x2, mark.y2);
  }
  return shape;
}

function write(context: OffscreenCanvasRenderingContext2D, mark: Extract<Mark, { kind: "text" }>): void {
  context.font = `${mark.italic ? "italic" : ""} ${mark.weight ?? 400} ${mark.size ?? 12}px ${FACES[mark.face ?? "sans"]}`;
  context.textAlign = mark.anchor === "middle" ? "center" : (mark.anchor ?? "start");
  context.translate(mark.x, mark.y);
  if (mark.turned) context.rotate(-Math.PI / 2);
  context.fillText(mark.text, 0, 0);
}
